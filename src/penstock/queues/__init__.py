"""The rules of queues, without I/O: what a publish feeds, who gets it, and what becomes of it."""
