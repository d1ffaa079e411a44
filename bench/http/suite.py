"""The benchmarks of HTTP, in the order in which they are run."""

from __future__ import annotations

from bench.http import client, publish, receive, sse

BENCHMARKS = (publish.BENCHMARK, receive.BENCHMARK, client.BENCHMARK, sse.BENCHMARK)
