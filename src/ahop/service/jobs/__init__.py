"""Work in the background: refits and upkeep."""
