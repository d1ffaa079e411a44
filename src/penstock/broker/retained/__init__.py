"""Retained messages: one compacted log a namespace, an index of topics in memory, values on disk."""
