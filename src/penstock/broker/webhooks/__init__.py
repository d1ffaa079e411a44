"""Webhooks: what happens in the broker, told to servers of others."""
