"""How messages reach those who consume groups, and how they are settled."""
