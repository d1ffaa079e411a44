"""The loops over messages, one by one, compiled and uncompiled."""
