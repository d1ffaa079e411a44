"""Arrow Flight: queues as tables over the network."""
