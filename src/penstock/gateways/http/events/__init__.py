"""Event streams and WebSockets."""
