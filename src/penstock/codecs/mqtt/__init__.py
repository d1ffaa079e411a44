"""MQTT 3.1.1 and 5.0 on one path: packets, properties, reason codes, and the order of a session."""
