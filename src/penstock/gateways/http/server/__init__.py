"""Connections, requests, logins and errors."""
