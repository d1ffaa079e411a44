"""Rows that are stored now and become messages together, once, when their epoch is committed."""
