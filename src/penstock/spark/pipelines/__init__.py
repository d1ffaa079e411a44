"""Declared pipelines: sources, steps, rules and sinks in a file, run as Spark's Structured Streaming."""
