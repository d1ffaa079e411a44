"""Queues seen as tables: rows of a data directory as Arrow, without the broker."""
