"""What can be set of HTTP."""

from __future__ import annotations

from typing import Annotated

import msgspec

from penstock.core.settings.numbers import Count, Duration, Size
from penstock.core.settings.texts import ListOf, Text
from penstock.core.settings.words import Flag
from penstock.gateways.http.options import HttpOptions
from penstock.gateways.wire.origins import Origins

_DEFAULTS = HttpOptions()


def _check_origin(text: str) -> None:
    Origins([text])


class Http(msgspec.Struct, frozen=True, kw_only=True):
    max_body_size_bytes: Annotated[int, Size(1 << 10, 1 << 30)] = _DEFAULTS.max_body_bytes
    """largest request body; in a stream of lines, largest line"""
    memory_size_bytes: Annotated[int | None, Size(1 << 20, 1 << 40, or_none=True)] = _DEFAULTS.memory_bytes
    """memory for what all clients together send or have not read: half for request bodies, of which those beyond it are
    refused with 503, half for answers and events, and when that is used up the client that takes most is disconnected;
    none: a sixteenth of the memory of the machine or container, at most 256 MiB"""
    head_timeout_ms: Annotated[int, Duration(100)] = round(_DEFAULTS.head_timeout_s * 1000)
    """time limit for the request line and the headers"""
    stall_timeout_ms: Annotated[int, Duration(100)] = round(_DEFAULTS.stall_timeout_s * 1000)
    """a request whose body makes no progress for this long is aborted"""
    keep_alive_ms: Annotated[int, Duration(1000)] = round(_DEFAULTS.keep_alive_s * 1000)
    """idle connections are closed after this time"""
    cors_origins: Annotated[tuple[str, ...], ListOf(Text(_check_origin))] = ()
    """pages of other origins that may call, like https://example.com or https://*.example.com; an empty list: none"""
    max_streams: Annotated[int, Count(0, 1_000_000)] = _DEFAULTS.max_streams
    """event streams and WebSockets at a time"""
    partition_metrics: Annotated[bool, Flag()] = _DEFAULTS.partition_metrics
    """metrics of each partition, beside those of queues and groups"""
    max_metric_queues: Annotated[int, Count(1, 1_000_000)] = _DEFAULTS.max_metric_queues
    """queues with metrics of their own; the others are summed up"""

    def options(self, is_development: bool) -> HttpOptions:
        return HttpOptions(
            max_body_bytes=self.max_body_size_bytes,
            memory_bytes=self.memory_size_bytes,
            head_timeout_s=self.head_timeout_ms / 1000,
            stall_timeout_s=self.stall_timeout_ms / 1000,
            keep_alive_s=self.keep_alive_ms / 1000,
            cors_origins=self.cors_origins,
            max_streams=self.max_streams,
            partition_metrics=self.partition_metrics,
            max_metric_queues=self.max_metric_queues,
            is_development=is_development,
        )
