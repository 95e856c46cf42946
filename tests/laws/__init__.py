"""Laws: what every member of a family keeps."""
