"""How queries are born from stored patterns."""
