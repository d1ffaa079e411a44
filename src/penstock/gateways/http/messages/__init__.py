"""Publishing, receiving, settling, looking."""
