"""Queues, groups and consumers at work."""
