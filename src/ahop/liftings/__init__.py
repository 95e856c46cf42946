"""Similarities as inner products: what each kind makes of a pattern, and of a query."""
