"""Real data: read from a folder, or fetched from its official source."""
