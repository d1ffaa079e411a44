"""What can be set of HTTP."""

from __future__ import annotations

from typing import Annotated

import msgspec

from penstock.core.errors import InvalidArgument
from penstock.gateways.http.options import HttpOptions
from penstock.queues.settings_text import Count, Duration, Flag, Size
from penstock.server.schema import Texts

_DEFAULTS = HttpOptions()


def _check_origin(text: str) -> None:
    scheme, separator, rest = text.partition("://")
    if text != "*" and not (separator and scheme in ("http", "https") and rest and "/" not in rest):
        raise InvalidArgument(f"{text[:80]!r} is not an origin: write it like https://example.com, without a path")


class Http(msgspec.Struct, frozen=True, kw_only=True):
    max_body_size_bytes: Annotated[int, Size(1 << 10, 1 << 30)] = _DEFAULTS.max_body_bytes
    """of a request; of a stream of lines, that of a line"""
    head_timeout_ms: Annotated[int, Duration(100)] = round(_DEFAULTS.head_timeout_s * 1000)
    """for the request line and the headers"""
    stall_timeout_ms: Annotated[int, Duration(100)] = round(_DEFAULTS.stall_timeout_s * 1000)
    """a request of whose body nothing comes for so long is given up"""
    keep_alive_ms: Annotated[int, Duration(1000)] = round(_DEFAULTS.keep_alive_s * 1000)
    """a connection without a request stays open for so long"""
    cors_origins: Annotated[tuple[str, ...], Texts(_check_origin)] = ()
    """pages of other origins that may call, like https://example.com; an empty list: none"""
    max_streams: Annotated[int, Count(0, 1_000_000)] = _DEFAULTS.max_streams
    """event streams and WebSockets at a time"""
    partition_metrics: Annotated[bool, Flag()] = _DEFAULTS.partition_metrics
    """metrics of each partition, beside those of queues and groups"""
    max_metric_queues: Annotated[int, Count(1, 1_000_000)] = _DEFAULTS.max_metric_queues
    """queues with metrics of their own; the others are summed up"""

    def options(self, is_development: bool) -> HttpOptions:
        return HttpOptions(
            max_body_bytes=self.max_body_size_bytes,
            head_timeout_s=self.head_timeout_ms / 1000,
            stall_timeout_s=self.stall_timeout_ms / 1000,
            keep_alive_s=self.keep_alive_ms / 1000,
            cors_origins=self.cors_origins,
            max_streams=self.max_streams,
            partition_metrics=self.partition_metrics,
            max_metric_queues=self.max_metric_queues,
            is_development=is_development,
        )
