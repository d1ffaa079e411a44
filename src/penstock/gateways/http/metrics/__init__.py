"""Metrics: what the broker counts, as text for Prometheus and over OTLP."""
