"""Queues, groups, users and the server itself."""
