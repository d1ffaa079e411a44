"""Against a small HTTP server that reads what it is sent as OpenTelemetry's collectors do."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from tests.support.broker import stage
from tests.support.metrics import sources_of

from penstock.telemetry.otlp import OtlpExporter, OtlpOptions
from penstock.telemetry.sources import MetricOptions, MetricSources

_PATIENCE_S = 30


class Collector:
    """Answers with `status`; keeps what it was sent and with which headers."""

    def __init__(self) -> None:
        self.status = 200
        self.sent: queue.Queue[tuple[dict[str, str], ExportMetricsServiceRequest]] = queue.Queue()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.sent.put((dict(self.headers.items()), ExportMetricsServiceRequest.FromString(body)))
                self.send_response(outer.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Not into the test's output."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}/v1/metrics"


@contextmanager
def collector() -> Iterator[Collector]:
    made = Collector()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        thread.join()
        made.server.server_close()


@asynccontextmanager
async def pushing(
    sources: MetricSources, endpoint: str, now_s: Callable[[], float] = lambda: 0.0
) -> AsyncIterator[OtlpExporter]:
    options = OtlpOptions(endpoint, interval_s=0.01, timeout_s=5, headers={"authorization": "Bearer t"})
    exporter = OtlpExporter(sources, options, MetricOptions(), now_s)
    exporter.start()
    try:
        yield exporter
    finally:
        await exporter.stop()


def by_name(request: ExportMetricsServiceRequest) -> dict[str, Metric]:
    [resource] = request.resource_metrics
    [scope] = resource.scope_metrics
    return {metric.name: metric for metric in scope.metrics}


def test_a_collector_gets_the_same_numbers(tmp_path: Path) -> None:
    async def run() -> tuple[dict[str, str], ExportMetricsServiceRequest]:
        async with stage(tmp_path) as made, sources_of(made) as sources:
            orders = await made.queue("orders")
            await made.put(orders, *[b"m"] * 10)
            await made.receive(await made.consumer(orders))
            async with pushing(sources, there.endpoint):
                return await asyncio.get_running_loop().run_in_executor(None, lambda: there.sent.get(True, _PATIENCE_S))

    with collector() as there:
        headers, request = asyncio.run(run())
    assert {name.lower(): value for name, value in headers.items()}["authorization"] == "Bearer t"
    [attribute] = request.resource_metrics[0].resource.attributes
    assert (attribute.key, attribute.value.string_value) == ("service.name", "penstock")
    metrics = by_name(request)
    published = metrics["penstock_broker_messages_published_total"].sum
    assert published.is_monotonic
    [point] = published.data_points
    assert point.as_int == 10
    assert {pair.key: pair.value.string_value for pair in point.attributes} == {
        "namespace": "default",
        "queue": "orders",
    }
    assert point.start_time_unix_nano == 1_700_000_000_000 * 1_000_000
    [latency] = metrics["penstock_broker_delivery_latency_seconds"].histogram.data_points
    assert (latency.count, len(latency.bucket_counts), latency.HasField("min")) == (10, 14, False)
    assert metrics["penstock_broker_delivery_latency_seconds"].unit == "s"
    [lag] = metrics["penstock_consumer_group_lag"].gauge.data_points
    assert lag.as_int == 10
    quantiles = metrics["mqtt_queue_delivery_latency_seconds"].gauge.data_points
    assert len(quantiles) == 3


def test_a_collector_that_refuses_is_complained_of_once_a_minute(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        now_s = 0.0
        async with (
            stage(tmp_path) as made,
            sources_of(made) as sources,
            pushing(sources, there.endpoint, lambda: now_s) as exporter,
        ):
            await _until(lambda: exporter.failed >= 3)
            assert len(complaints()) == 1
            now_s = 61.0
            await _until(lambda: len(complaints()) == 2)
            there.status = 200
            await _until(lambda: exporter.pushed > 0)

    def complaints() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]

    with collector() as there, caplog.at_level(logging.WARNING):
        there.status = 400
        asyncio.run(run())
    assert "metrics not pushed over OTLP" in complaints()[0]
    assert "400" in complaints()[0]


def test_stopping_does_not_wait_for_a_collector_that_is_not_there(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path) as made, sources_of(made) as sources:
            async with pushing(sources, "http://127.0.0.1:9/v1/metrics") as exporter:
                await _until(lambda: exporter._words.last != "")
            assert not exporter._thread.is_alive()

    asyncio.run(run())


async def _until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(_PATIENCE_S):
        while not is_so():  # noqa: ASYNC110 - a thread counts, and tells nobody
            await asyncio.sleep(0.01)
