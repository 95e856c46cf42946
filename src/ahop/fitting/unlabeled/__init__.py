"""Learning from queries without labels, from repeats and from donors."""
