"""The API described."""
