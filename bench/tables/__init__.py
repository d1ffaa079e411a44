"""Queues read as tables: from the directory, and over Arrow Flight."""
