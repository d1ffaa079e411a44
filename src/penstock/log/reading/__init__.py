"""Stored records for those who read, here and in other processes."""
