"""The client that speaks MQTT."""
