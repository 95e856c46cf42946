"""Memories and models as files: tensors, and words that name the parts. Nothing in them can run."""
