"""Benchmarks of Spark."""
