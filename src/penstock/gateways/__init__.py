"""Protocols at work: sockets on one side, the broker on the other. None imports another."""
