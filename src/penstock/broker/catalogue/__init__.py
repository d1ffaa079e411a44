"""What was declared, and how it comes back."""
