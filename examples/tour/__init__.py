"""What a log and a queue promise: `python -m examples.tour`."""
