"""Penstock over HTTP: against a handler that stores nothing, and beside MQTT."""
