"""A door in a process of its own."""
