"""What a route asks of who calls it, before its handler looks closer."""

from __future__ import annotations

import enum


class Right(enum.Enum):
    PUBLIC = "public"
    """nothing: probes, the version, the documentation"""
    LOGIN = "login"
    """to be somebody; the handler asks the rules about the queue or topic"""
    READ = "read"
    """to look at everything: the roles admin and read-only"""
    ADMIN = "admin"
    """to change what is not one's own"""
