"""Names and arguments of other packages, for those who come from there."""
