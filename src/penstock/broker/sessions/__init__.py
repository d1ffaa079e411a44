"""Sessions of clients that outlive their connection: subscriptions, what waits for them, what is in flight."""
