"""What can be set of metrics that are pushed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from penstock.core.errors import InvalidSetting
from penstock.core.settings.numbers import Duration
from penstock.server.config_webhooks import Address, Headers

if TYPE_CHECKING:
    from penstock.telemetry.otlp import OtlpExporter
    from penstock.telemetry.sources import MetricOptions, MetricSources


class Otlp(msgspec.Struct, frozen=True, kw_only=True):
    endpoint: Annotated[str, Address()]
    """full URL, like http://collector:4318/v1/metrics"""
    interval_ms: Annotated[int, Duration(1000)] = 60_000
    """time between two pushes"""
    timeout_ms: Annotated[int, Duration(100)] = 10_000
    """time limit for one push, retries included"""
    headers: Annotated[tuple[tuple[str, str], ...], Headers()] = ()
    """extra headers of each push: {Authorization: Bearer …}"""

    def exporter(self, sources: MetricSources, options: MetricOptions) -> OtlpExporter:
        """InvalidSetting if it is not installed."""
        try:
            from penstock.telemetry.otlp import OtlpExporter, OtlpOptions
        except ImportError as error:
            raise InvalidSetting("otlp", str(error)) from error
        own = OtlpOptions(self.endpoint, self.interval_ms / 1000, self.timeout_ms / 1000, dict(self.headers))
        return OtlpExporter(sources, own, options)
