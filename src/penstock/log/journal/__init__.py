"""What is committed at once."""
