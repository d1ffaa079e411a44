"""Jobs over whole queues."""
