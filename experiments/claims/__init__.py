"""What we say beyond the paper, measured."""
