"""Durable publishes over HTTP, 1, 100 and 1,000 messages a request, against a handler that stores nothing."""

from __future__ import annotations

from functools import partial

import msgspec

from bench.http.api import Api, body
from bench.http.peers import start_bare, start_penstock
from bench.http.wrk import CONNECTIONS, Wrk, outcome
from bench.measure import Benchmark, Comparison, Run
from bench.mqtt.link import PeerFailed
from bench.mqtt.load import Outcome
from bench.mqtt.meter import compared
from bench.mqtt.mqtt_speech import QUEUE
from bench.mqtt.peers import Broker, running, say_left_out
from bench.mqtt.servers import Absent

_ROUND_MS = 4000
_WANTED_A_SECOND = 200_000
# A request that never changes is built once by wrk. What it counts as refused is every status above 399.
_SCRIPT = """
wrk.method = "POST"
wrk.path = "/api/v1/queues/{queue}/messages"
wrk.headers["Content-Type"] = "application/json"
wrk.body = [==[{body}]==]

function done(summary)
  local errors = summary.errors
  io.write(string.format(
    '{{"requests": %.0f, "duration_us": %.0f, "refused": %.0f, "broken": %.0f}}\\n',
    summary.requests, summary.duration, errors.status,
    errors.connect + errors.read + errors.write + errors.timeout))
  io.flush()
end
"""


class Answered(msgspec.Struct, frozen=True):
    """What wrk counted. Requests under way at its end are not among them."""

    requests: int
    duration_us: int
    refused: int
    broken: int


def run(settings: Run) -> list[Comparison]:
    try:
        wrk = Wrk(settings.directory)
    except Absent as absence:
        say_left_out(absence)
        return []
    duration_s = max(1, settings.size(_ROUND_MS) // 1000)
    with running(settings.directory, start_penstock, start_bare) as brokers:
        single = partial(_publish, wrk, duration_s, 1)
        hundred = partial(_publish, wrk, duration_s, 100)
        thousand = partial(_publish, wrk, duration_s, 1000)
        asked = {"Starlette": 0.6}
        return [
            *compared(settings, brokers, single, "a message, 1 a request, durable", asked),
            *compared(
                settings, brokers, hundred, "a message, 100 a request, durable", asked, a_second=_WANTED_A_SECOND
            ),
            *compared(settings, brokers, thousand, "a message, 1,000 a request, durable", asked),
        ]


def _publish(wrk: Wrk, duration_s: int, batch: int, broker: Broker) -> Outcome:
    api = Api(broker.address)
    held = _held(api, broker)
    said, used = wrk.run(broker, _SCRIPT.format(queue=QUEUE, body=body(batch).decode()), duration_s, Answered)
    check_answers(said)
    check_held(_held(api, broker) - held, said.requests * batch, batch, broker)
    if broker.name == "Penstock":
        api.purge(QUEUE)
    api.close()
    return outcome(said.requests * batch, said.duration_us / 1e6, used)


def _held(api: Api, broker: Broker) -> int:
    return api.stats(QUEUE).messages if broker.name == "Penstock" else 0


def check_answers(said: Answered) -> None:
    if said.refused or said.broken or not said.requests:
        raise PeerFailed(f"{said.requests:,} answers, {said.refused:,} refusals, {said.broken:,} broken connections")


def check_held(held: int, accepted: int, batch: int, broker: Broker) -> None:
    """All that was accepted is there, and what was under way when the generator stopped may be."""
    if broker.name == "Penstock" and not accepted <= held <= accepted + CONNECTIONS * batch:
        raise PeerFailed(f"{accepted:,} messages were accepted, and {held:,} are there")


BENCHMARK = Benchmark(
    "http-publish", "durable publishes over HTTP, 32 connections, against a handler that stores nothing", run
)
