"""What goes to clients."""
