"""How close is a query to a stored pattern? Larger is closer, always."""
