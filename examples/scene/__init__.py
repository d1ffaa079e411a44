"""A server at work: `python -m examples.scene`."""
