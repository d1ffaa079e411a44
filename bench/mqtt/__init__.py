"""Penstock as a server beside other brokers: one generator, peers in the same run, ratios."""
