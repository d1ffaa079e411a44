"""Benchmarks: each prints a ratio to a named baseline measured in the same run. docs/benchmarks.md says what they mean."""
