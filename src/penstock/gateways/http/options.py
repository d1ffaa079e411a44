"""Every knob of the gateway."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HttpOptions:
    max_body_bytes: int = 16 << 20
    """of one request; longer ones are refused before they are read, but for streams of lines, where it is that of a
    line"""
    max_head_bytes: int = 64 << 10
    memory_bytes: int | None = None
    """of bodies that all clients together send, and of what they do not take; None: half of usual_budget_bytes()"""
    head_timeout_s: float = 10.0
    """for the request line and the headers"""
    stall_timeout_s: float = 30.0
    """a body of which nothing comes for so long ends the connection"""
    keep_alive_s: float = 75.0
    """a connection without a request stays open for so long"""
    cors_origins: tuple[str, ...] = ()
    """pages of other origins that may call; none: pages of the same origin only"""
    max_streams: int = 10_000
    """event streams and WebSockets at a time"""
    partition_metrics: bool = False
    max_metric_queues: int = 1000
    is_development: bool = False
