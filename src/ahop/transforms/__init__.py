"""What is done to a row before it is compared."""
