"""The client that speaks HTTP."""
