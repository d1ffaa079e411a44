"""The benchmarks of AMQP 0.9.1, in the order in which they are run."""

from __future__ import annotations

from bench.amqp import beside, lives, loads

BENCHMARKS = (loads.PUBLISH, loads.PATH, loads.LATENCY, lives.LIVES, lives.IDLE, beside.BENCHMARK)
