"""A thousand event streams beside MQTT: what their events cost publishers, and the memory of a client."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path

from bench.http.api import Api
from bench.http.peers import LIVE_QUEUE, start_with_mqtt
from bench.http.reader import Readers, compiled, reading
from bench.measure import Benchmark, Comparison, Ratio, Run, Series, Target, Unit, interleaved
from bench.mqtt.durable import Speeches, publish
from bench.mqtt.link import PeerFailed
from bench.mqtt.meter import Meter
from bench.mqtt.peers import Broker, raise_open_files, say_left_out
from bench.mqtt.servers import Absent

CLIENTS, _LEAST_CLIENTS = 1000, 100
_EVENTS_A_SECOND = 10
_ROUND_MS, _LEAST_MS = 4000, 1000
_ALLOWED_BYTES = 64 << 10
_PATH = f"/api/v1/queues/{LIVE_QUEUE}/events"


class Ticker:
    """Publishes to the queue that is followed, at a fixed rate, in a thread; counts what was accepted."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._error: Exception | None = None
        self.published, self.seconds = 0, 0.0

    def __enter__(self) -> Ticker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        api, begun_s = Api(self._address), time.monotonic()
        try:
            while not self._is_over.wait(begun_s + self.published / _EVENTS_A_SECOND - time.monotonic()):
                api.publish(LIVE_QUEUE, 1)
                self.published += 1
        except (PeerFailed, OSError) as error:
            self._error = error
        self.seconds = time.monotonic() - begun_s
        api.close()


class Side:
    """The same load over MQTT, with clients that are silent and with clients that get events."""

    def __init__(self, broker: Broker, http: tuple[str, int], readers: Readers, duration_s: float) -> None:
        self._broker, self._http, self._readers, self._duration_s = broker, http, readers, duration_s
        self._speeches = Speeches.to([broker])
        self.meter = Meter()
        self.rates: list[float] = []
        """events a second that each client was sent"""
        self.shares_in_time: list[float] = []
        """of the events of a round, those that had come when the last was published"""

    def silent(self) -> float:
        return self._publish("silent clients")

    def busy(self) -> float:
        """Counts only if every client got every event."""
        before = self._readers.read().events
        with Ticker(self._http) as ticker:
            taken_s = self._publish("clients with events")
        wanted = ticker.published * self._readers.clients
        self.shares_in_time.append((self._readers.read().events - before) / wanted)
        self._readers.wait_for(before + wanted)
        self.rates.append(ticker.published / ticker.seconds)
        return taken_s

    def _publish(self, name: str) -> float:
        outcome = publish(self._speeches, self._duration_s, False, self._broker)
        self.meter.add(name, outcome)
        return outcome.seconds_a_message

    def notes(self) -> dict[str, str]:
        return {
            "events a second and client": f"{min(self.rates):.1f} - {max(self.rates):.1f}",
            "come when the last was published": f"{min(self.shares_in_time):.0%} - {max(self.shares_in_time):.0%}",
            **self.meter.notes("silent clients", "clients with events"),
        }


def run(settings: Run) -> list[Comparison]:
    try:
        reader = compiled(settings.directory)
    except Absent as absence:
        say_left_out(absence)
        return []
    raise_open_files()
    clients = settings.size(CLIENTS, _LEAST_CLIENTS)
    return [_publishing(settings, reader, clients), _memory(settings, reader, clients)]


def _publishing(settings: Run, reader: Path, clients: int) -> Comparison:
    duration_s = settings.size(_ROUND_MS, _LEAST_MS) / 1000
    with (
        _penstock(settings.directory / "publishing") as (broker, http),
        reading(reader, http, _PATH, clients) as readers,
    ):
        side = Side(broker, http, readers, duration_s)
        samples = interleaved(settings.rounds, {"silent": side.silent, "busy": side.busy})
    subject = f"an MQTT publish, durable, {clients:,} SSE clients at {_EVENTS_A_SECOND} events/s"
    silent = Series("the same clients, silent", samples["silent"])
    return Comparison(Series(subject, samples["busy"]), silent, target=Target(">=", 0.6), notes=side.notes())


def _memory(settings: Run, reader: Path, clients: int) -> Comparison:
    directories = (settings.directory / f"memory-{number}" for number in count())
    samples = interleaved(settings.rounds, {"client": partial(_bytes_a_client, directories, reader, clients)})
    subject = Series(f"memory of an SSE client, {clients:,} of them", samples["client"], Unit.BYTES)
    allowed = Series("64 KiB", (float(_ALLOWED_BYTES),) * settings.rounds, Unit.BYTES)
    return Comparison(subject, allowed, Ratio.COST, Target("<=", 1))


def _bytes_a_client(directories: Iterator[Path], reader: Path, clients: int) -> float:
    """What a fresh server grows by for each, once it has served one and so has loaded what that takes."""
    with _penstock(next(directories)) as (broker, http):
        with reading(reader, http, _PATH, 1):
            pass
        before = broker.server.resident_bytes()
        with reading(reader, http, _PATH, clients):
            return (broker.server.resident_bytes() - before) / clients


@contextmanager
def _penstock(directory: Path) -> Iterator[tuple[Broker, tuple[str, int]]]:
    directory.mkdir()
    broker, http = start_with_mqtt(directory)
    try:
        yield broker, http
    finally:
        broker.stop()


BENCHMARK = Benchmark(
    "http-sse", "1,000 event streams at 10 events/s each: MQTT publishes beside them, and memory", run
)
