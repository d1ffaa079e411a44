"""What the broker says of itself: metrics as text for Prometheus, and over OTLP."""
