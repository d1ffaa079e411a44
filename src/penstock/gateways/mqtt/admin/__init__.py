"""What operators see and do over MQTT."""
