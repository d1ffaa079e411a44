"""Penstock against what people use instead, on the same machine and disk."""
