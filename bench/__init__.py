"""Benchmarks: each prints a ratio to a named baseline measured beside it. docs/benchmarks.md says what they mean."""
