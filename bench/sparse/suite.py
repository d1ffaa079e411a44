"""The benchmarks of sparse loads, in the order in which they are run."""

from __future__ import annotations

from bench.sparse import churn, connections, fairness, latency, path, queues, window_1

BENCHMARKS = (
    queues.BENCHMARK,
    connections.BENCHMARK,
    latency.BENCHMARK,
    window_1.BENCHMARK,
    path.BENCHMARK,
    fairness.BENCHMARK,
    churn.BENCHMARK,
)
