"""Where variants and similarities meet: learning from pairs."""
