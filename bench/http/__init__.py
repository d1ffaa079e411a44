"""Benchmarks of HTTP."""
