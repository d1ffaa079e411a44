"""HTTP: the API for data and administration, events, metrics."""
