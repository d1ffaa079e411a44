"""Pushes the same numbers over OTLP, every so often, from a thread beside the loop. Needs the extra `otlp`."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

try:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics.export import MetricExportResult
except ImportError as error:
    raise ImportError("pushing metrics over OTLP needs OpenTelemetry: pip install 'penstock[otlp]'") from error

from penstock.telemetry.exposition import collect
from penstock.telemetry.otlp_points import metrics_data
from penstock.telemetry.sources import MetricOptions, MetricSources

logger = logging.getLogger("penstock.otlp")

_COMPLAINT_S = 60.0
# Of one request: about a MiB, where collectors take four.
_POINTS_AT_ONCE = 5000
_COLLECTING_S = 30.0
_JOIN_S = 5.0


@dataclass(frozen=True, slots=True)
class OtlpOptions:
    endpoint: str
    """all of it: http://collector:4318/v1/metrics"""
    interval_s: float = 60.0
    timeout_s: float = 10.0
    """for one push, tries again included"""
    headers: Mapping[str, str] = field(default_factory=dict)
    resource: Mapping[str, str] = field(default_factory=lambda: {"service.name": "penstock"})


class OtlpExporter:
    """start() and stop() it on the loop. A push that fails is over: the next one has the same totals and more, so
    nothing is kept for later."""

    def __init__(
        self,
        sources: MetricSources,
        options: OtlpOptions,
        metric_options: MetricOptions,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sources, self._options, self._metric_options = sources, options, metric_options
        self._monotonic = monotonic
        self._loop = asyncio.get_running_loop()
        self._exporter = OTLPMetricExporter(
            endpoint=options.endpoint,
            headers=dict(options.headers),
            timeout=options.timeout_s,
            max_export_batch_size=_POINTS_AT_ONCE,
        )
        self._thread = threading.Thread(target=self._run, name="penstock-otlp", daemon=True)
        self._stopping = threading.Event()
        self._words = LastWords()
        self._complained_s = -_COMPLAINT_S
        self.pushed = self.failed = 0

    def start(self) -> None:
        logging.getLogger(OTLPMetricExporter.__module__).addFilter(self._words)
        self._thread.start()

    async def stop(self) -> None:
        """A push under way is given up."""
        self._stopping.set()
        await self._loop.run_in_executor(None, self._end)

    def _end(self) -> None:
        self._exporter.shutdown()
        self._thread.join(_JOIN_S)
        logging.getLogger(OTLPMetricExporter.__module__).removeFilter(self._words)

    def _run(self) -> None:
        while not self._stopping.wait(self._options.interval_s):
            self._push()

    def _push(self) -> None:
        self._words.last = ""
        try:
            is_sent = self._send()
        except Exception as error:  # whatever it is, the broker does without
            self._fail(f"{type(error).__name__}: {error}")
            return
        if is_sent:
            self.pushed += 1
        else:
            self._fail(self._words.last)

    def _send(self) -> bool:
        collecting = asyncio.run_coroutine_threadsafe(collect(self._sources, self._metric_options), self._loop)
        try:
            samples = collecting.result(_COLLECTING_S)
        except TimeoutError:
            collecting.cancel()
            raise
        data = metrics_data(samples, self._options.resource, self._sources.started_ms * 1_000_000, time.time_ns())
        return self._exporter.export(data) is MetricExportResult.SUCCESS

    def _fail(self, reason: str) -> None:
        """Counted, and said once a minute."""
        self.failed += 1
        now_s = self._monotonic()
        if not self._stopping.is_set() and now_s - self._complained_s >= _COMPLAINT_S:
            self._complained_s = now_s
            logger.warning(
                "metrics not pushed over OTLP, look at the collector and at otlp.endpoint failed=%d reason=%s",
                self.failed,
                reason,
            )


class LastWords(logging.Filter):
    """OpenTelemetry's exporter tells why it failed only by lines, one a try: here they end as our reason."""

    def __init__(self) -> None:
        super().__init__()
        self.last = ""

    def filter(self, record: logging.LogRecord) -> bool:
        self.last = record.getMessage()
        return False
