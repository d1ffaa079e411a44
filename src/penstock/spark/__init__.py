"""Queues as Spark tables and streams."""
