"""`penstock publish`: messages to a server, over MQTT."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import click

from penstock.cli.failures import INTERRUPTED
from penstock.cli.message.lines import LineReader, stop_on_signal
from penstock.cli.message.options import qos_option, value_of, value_options
from penstock.cli.output import DATA_FORMATS, output_option, print_data
from penstock.cli.server_arguments import (
    ServerArguments,
    naming_queues,
    no_create_option,
    server_options,
    user_properties,
)
from penstock.client.mqtt.async_client import AsyncMqttClient
from penstock.client.mqtt.options import MqttOptions
from penstock.codecs.mqtt.properties import Properties
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.core.errors import InvalidArgument
from penstock.core.units import parse_duration

# Enough to keep a server busy over a slow network; what is read ahead and not acknowledged is lost with the command.
_UNDER_WAY = 1000
_TAKE_LINES, _TAKE_BYTES = 500, 4 << 20
_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)(?:/([smh]))?")
_PERIODS_S = {None: 1, "s": 1, "m": 60, "h": 3600}


@dataclass(slots=True)
class Report:
    """What is known to have arrived; of QoS 0, what was written."""

    messages: int = 0
    size_bytes: int = 0
    unmatched: int = 0
    """taken by a server that had nobody to give them to"""

    def note(self, size_bytes: int, reason: ReasonCode) -> None:
        self.messages += 1
        self.size_bytes += size_bytes
        self.unmatched += reason is ReasonCode.NO_MATCHING_SUBSCRIBERS


@dataclass(frozen=True, slots=True)
class PublishRequest:
    topic: str
    qos: int
    retain: bool
    properties: Properties
    interval_s: float
    count: int | None


@click.command()
@click.argument("topic", metavar="TOPIC")
@click.argument("message", metavar="[MESSAGE]", required=False)
@value_options
@qos_option
@click.option("--retain", is_flag=True, help="Retain the message for later subscribers; an empty message removes it.")
@click.option(
    "--property", "properties", metavar="NAME=VALUE", multiple=True, help="MQTT 5 user property. Can be repeated."
)
@click.option("--content-type", metavar="TYPE", help="Content type, like application/json.")
@click.option("--response-topic", metavar="TOPIC", help="Topic for responses.")
@click.option("--correlation-data", metavar="TEXT", help="Correlation data for responses.")
@click.option("--expiry", metavar="DURATION", help="Message expiry, like 10s or 1h.")
@click.option("--rate", metavar="N/s", help="Limit the rate: 100/s, 30/m.")
@click.option(
    "--count",
    metavar="N",
    type=click.IntRange(min=1),
    help="Publish the message N times; with --stdin, at most N lines.",
)
@no_create_option
@server_options
@output_option()
def publish(
    server: ServerArguments,
    topic: str,
    message: str | None,
    file: Path | None,
    is_stdin: bool,
    qos: int,
    retain: bool,
    properties: tuple[str, ...],
    content_type: str | None,
    response_topic: str | None,
    correlation_data: str | None,
    expiry: str | None,
    rate: str | None,
    count: int | None,
    no_create: bool,
    output: str,
) -> int:
    """Publish to a topic, or to a queue as $queue/NAME.

    With QoS 1 and 2, exit code 0 means that the server has acknowledged every message: messages to a queue are on disk.
    If the command fails or is interrupted, it prints how many messages were acknowledged. A queue that does not exist
    is created, and with QoS 1 and 2 the command says so; with --no-create it fails instead.

    \b
    Examples:
      penstock publish sensors/1/temperature 21.5
      penstock publish '$queue/orders' '{"id": 7}' --content-type application/json --property priority=high
      seq 1000 | penstock publish load/test --stdin --rate 100/s
      penstock publish site/plan --file plan.pdf --retain -H broker.example.com --tls -u me --password-file secret
    """
    request = PublishRequest(
        topic=topic,
        qos=qos,
        retain=retain,
        properties=Properties(
            message_expiry_interval_s=_expiry_s(expiry),
            content_type=content_type,
            response_topic=response_topic,
            correlation_data=None if correlation_data is None else correlation_data.encode(),
            user_properties=user_properties(properties),
        ),
        interval_s=_interval_s(rate),
        count=count if is_stdin else count or 1,
    )
    payload = value_of("MESSAGE", message, file, is_stdin)
    options = naming_queues(replace(server.options(), reconnect=None), no_create)
    report = Report()
    try:
        code = asyncio.run(_publish(options, request, payload, report))
    except BaseException:
        if report.messages:
            _print(request, report, output)
        raise
    _print(request, report, output)
    return code


def _expiry_s(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return max(1, round(parse_duration(text)))
    except InvalidArgument as error:
        raise click.BadParameter(str(error), param_hint="--expiry") from error


def _interval_s(text: str | None) -> float:
    if text is None:
        return 0.0
    match = _RATE.fullmatch(text)
    if match is None or not float(match[1]):
        raise click.BadParameter(f"{text!r}: write it like 100/s or 30/m", param_hint="--rate")
    return _PERIODS_S[match[2]] / float(match[1])


async def _publish(options: MqttOptions, request: PublishRequest, payload: bytes | None, report: Report) -> int:
    async with AsyncMqttClient(options) as client:
        lines = LineReader(sys.stdin.fileno()) if payload is None else None
        interrupted = stop_on_signal(lines)
        payloads = _repeated(payload or b"", request.count, interrupted) if lines is None else _lines(lines, request)
        await _send_all(client, request, payloads, report)
    return INTERRUPTED if interrupted else 0


async def _send_all(
    client: AsyncMqttClient, request: PublishRequest, payloads: AsyncIterator[bytes], report: Report
) -> None:
    """As many under way as the server takes; those that were answered are noted in order, also when it fails."""
    under_way: deque[tuple[int, asyncio.Future[ReasonCode]]] = deque()
    due_s = asyncio.get_running_loop().time()
    try:
        async for payload in payloads:
            due_s = await _pace(due_s, request.interval_s)
            answer = await client.begin_publish(
                request.topic, payload, qos=request.qos, retain=request.retain, properties=request.properties
            )
            under_way.append((len(payload), answer))
            await _note(under_way, report, _UNDER_WAY)
        await _note(under_way, report, 0)
    finally:
        for size_bytes, answer in under_way:
            # What has no answer when all ends will never have one.
            if not answer.cancel() and not answer.cancelled() and answer.exception() is None:
                report.note(size_bytes, answer.result())


async def _note(under_way: deque[tuple[int, asyncio.Future[ReasonCode]]], report: Report, most: int) -> None:
    while under_way and (len(under_way) > most or under_way[0][1].done()):
        size_bytes, answer = under_way.popleft()
        report.note(size_bytes, await answer)


async def _pace(due_s: float, interval_s: float) -> float:
    """Wait for the turn of a message; the turn of the next. A late one is not caught up with by a burst."""
    now_s = asyncio.get_running_loop().time()
    if interval_s and due_s > now_s:
        await asyncio.sleep(due_s - now_s)
    return max(due_s, now_s) + interval_s


async def _repeated(payload: bytes, count: int | None, interrupted: list[signal.Signals]) -> AsyncIterator[bytes]:
    for _ in range(count or 1):
        if interrupted:
            return
        yield payload


async def _lines(lines: LineReader, request: PublishRequest) -> AsyncIterator[bytes]:
    left = request.count
    while left != 0 and (taken := await lines.take(min(left or _TAKE_LINES, _TAKE_LINES), _TAKE_BYTES)):
        for line in taken:
            yield line
        left = None if left is None else left - len(taken)


def _print(request: PublishRequest, report: Report, output: str) -> None:
    if output in DATA_FORMATS:
        print_data({
            "topic": request.topic,
            "qos": request.qos,
            "messages": report.messages,
            "bytes": report.size_bytes,
            "unmatched": report.unmatched,
        }, output)  # fmt: skip
        return
    plural = "message" if report.messages == 1 else "messages"
    nobody = f", {report.unmatched:,} of them to nobody" if report.unmatched else ""
    said = "acknowledged" if request.qos else "sent"
    click.echo(f"{request.topic}: {report.messages:,} {plural} {said}{nobody}")
