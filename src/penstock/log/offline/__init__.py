"""Directories that nobody has open: looked at, mended, copied."""
