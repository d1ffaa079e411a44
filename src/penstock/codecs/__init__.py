"""Protocols without I/O: bytes in, packets out, and the order they may come in as tables. No socket, task or clock."""
