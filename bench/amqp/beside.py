"""How late MQTT is while AMQP 0.9.1 does all it can: p99 of 1,000 durable publishes a second, alone and beside it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from bench.amqp.loads import PATHS, played
from bench.amqp.peers import start_penstock
from bench.measure import Benchmark, Comparison, Ratio, Run, Series, Target, Unit, interleaved
from bench.mqtt.many import Many, generator
from bench.mqtt.peers import Broker, running

_RATE, _MQTT_MS, _LEAST_MS = 1000, 3000, 300
_ALLOWED = 1.5


def run(settings: Run) -> list[Comparison]:
    if (many := generator(settings)) is None:
        return []
    duration_ms = settings.size(_MQTT_MS, _LEAST_MS)
    with running(settings.directory, start_penstock) as [broker]:
        samples = interleaved(
            settings.rounds,
            {
                "beside": lambda: _beside(many, broker, duration_ms),
                "alone": lambda: _p99(many, broker, duration_ms),
            },
        )
    subject = Series("p99 of MQTT at 1,000 a second beside full AMQP", samples["beside"], Unit.SECONDS)
    alone = Series("alone", samples["alone"], Unit.SECONDS)
    return [Comparison(subject, alone, Ratio.COST, Target("<=", _ALLOWED))]


def _p99(many: Many, broker: Broker, ms: int) -> float:
    assert broker.http is not None, "the address of its MQTT listener"
    mqtt = replace(broker, address=broker.http)
    said, _ = many.run(mqtt, speech="mqtt", topic="$queue/beside", publishers=4, window=1000, rate=_RATE, ms=ms)
    return said.to_acknowledged_ns[1] / 1e9


def _beside(many: Many, broker: Broker, duration_ms: int) -> float:
    with ThreadPoolExecutor(1) as pool:
        load = pool.submit(played, many, PATHS[1], broker, ms=duration_ms + 500)
        p99 = _p99(many, broker, duration_ms)
        load.result()
    return p99


BENCHMARK = Benchmark("mqtt-beside-amqp", "p99 of MQTT while AMQP 0.9.1 runs at full speed, against alone", run)
