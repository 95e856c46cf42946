"""How patterns are changed before they are compared."""
