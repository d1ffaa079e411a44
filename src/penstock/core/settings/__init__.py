"""Settings declared once: read strictly, written back, described."""
