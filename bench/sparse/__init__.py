"""Sparse loads: many connections, many queues, few messages at a time."""
