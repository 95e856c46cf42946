"""Tables in files: read, decided about, written."""
