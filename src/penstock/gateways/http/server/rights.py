"""What a route asks of who calls it, before its handler looks closer."""

from __future__ import annotations

import enum


class Right(enum.Enum):
    PUBLIC = "public"
    """nothing: probes, the version, the documentation"""
    LOGIN = "login"
    """to be somebody; the handler asks the rules about the queue or topic"""
    NUMBERS = "numbers"
    """to see how much there is: the roles admin, read-only and monitor"""
    READ = "read"
    """to look at everything of a namespace: the roles admin and read-only"""
    ADMIN = "admin"
    """to change what is not one's own, in a namespace"""
    SERVER = "server"
    """what is the server's and no namespace's: the role admin in the namespace `default`"""
