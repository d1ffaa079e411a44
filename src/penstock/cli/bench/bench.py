"""`penstock bench`: how fast a server is, here and now."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import click
import msgspec

from penstock.cli.bench import http as bench_http
from penstock.cli.bench.load import Load, Result
from penstock.cli.connections import on_server
from penstock.cli.output import DATA_FORMATS, output_option, print_data, print_table
from penstock.cli.server_arguments import mqtt_options
from penstock.cli.table_source import FlightLogin
from penstock.cli.target import Target, target_options
from penstock.client.http.async_client import AsyncClient
from penstock.client.http.options import TlsFiles
from penstock.core.errors import InvalidArgument

Command = TypeVar("Command", bound=Callable[..., object])

_HTTP_LOADS = {
    "http-publish": bench_http.publish,
    "http-receive": bench_http.receive,
    "http-events": bench_http.events,
}
_MQTT = "mqtt-publish", "mqtt-consume"
_FLIGHT = "flight-publish", "flight-read"
_USUAL = "http-publish", "http-receive"
_PUBLISHING = "http-publish", "mqtt-publish", "flight-publish"
# A server takes no more in one request over HTTP.
_PREPARED_BATCH = 1000
_NO_RATIO = "-"
_FILE = click.Path(dir_okay=False, path_type=Path)
_COLUMNS = ["load", "messages", "bytes", "connections", "batch", "messages/s", "p50 ms", "p99 ms", "max ms"]


class Saved(msgspec.Struct, frozen=True):
    """What --save writes and --compare reads."""

    url: str
    server_version: str
    time: str
    results: list[Result]


def _number(*names: str, least: int = 1, most: int, usual: int, text: str) -> Callable[[Command], Command]:
    kind = click.IntRange(least, most)
    return click.option(*names, metavar="N", type=kind, default=usual, show_default=True, help=text)


@click.command()
@click.argument("kinds", metavar="[LOAD]...", nargs=-1, type=click.Choice([*_HTTP_LOADS, *_MQTT, *_FLIGHT]))
@_number(
    "-n", "--messages", most=100_000_000, usual=20_000, text="Number of messages of each load, over all connections."
)
@_number("--size", least=0, most=1 << 20, usual=256, text="Size of a message in bytes.")
@_number("--connections", most=1000, usual=8, text="Number of connections that send at the same time.")
@_number(
    "--batch", most=65_535, usual=100, text="Messages per request; over MQTT, unacknowledged messages per connection."
)
@_number("--partitions", most=1000, usual=4, text="Partitions of the queue that is created for the load.")
@click.option(
    "--mqtt",
    metavar="ADDRESS",
    help="Address for mqtt loads: mqtt(s)://host or ws(s)://host/mqtt.  [default: the context's]",
)
@click.option("--flight", metavar="ADDRESS", help="Address for flight loads: grpc://host:port or grpc+tls://host:port.")
@click.option("--save", metavar="FILE", type=_FILE, help="Save the results to this file as JSON.")
@click.option("--compare", metavar="FILE", type=_FILE, help="Compare with results saved before.")
@target_options
@output_option()
def bench(
    target: Target,
    kinds: tuple[str, ...],
    messages: int,
    size: int,
    connections: int,
    batch: int,
    partitions: int,
    mqtt: str | None,
    flight: str | None,
    save: Path | None,
    compare: Path | None,
    output: str,
) -> None:
    """Measure the throughput of a server: messages per second, and the time requests take.

    LOAD is http-publish, http-receive (received and acknowledged), http-events (event streams, each from the first
    message on), mqtt-publish (QoS 1), mqtt-consume (QoS 1, in one group), flight-publish or flight-read; by default the
    first two. Messages are published to a temporary queue, which is deleted afterwards; loads that read are given
    messages to read first. Every acknowledgement means that the message is on disk. The load runs in this process: on a
    small machine it competes with the server.

    \b
    Examples:
      penstock bench
      penstock bench http-publish --batch 1 --connections 32 --save before.json
      penstock bench http-publish --batch 1 --connections 32 --compare before.json
      penstock bench mqtt-publish mqtt-consume --mqtt mqtt://127.0.0.1:1883
      penstock bench flight-publish flight-read --batch 10000 --flight grpc://127.0.0.1:8815
    """
    before = None if compare is None else _read(compare)
    load = Load(f"bench-{secrets.token_hex(4)}", messages, size, connections, batch)
    # One more: what is asked beside the load does not wait for it.
    target = replace(target, options=replace(target.options, max_connections=connections + 1))
    doors = Doors(target, mqtt, flight)

    async def act(client: AsyncClient) -> Saved:
        version = str((await client.version())["version"])
        await client.create_queue(load.queue, {"partitions": partitions})
        try:
            results = [await doors.run(client, kind, load) for kind in kinds or _USUAL]
        finally:
            await client.delete_queue(load.queue)
        return Saved(str(target), version, datetime.now(UTC).isoformat(timespec="seconds"), results)

    measured = on_server(target, act)
    if save is not None:
        save.write_bytes(msgspec.json.format(msgspec.json.encode(measured)) + b"\n")
    if output in DATA_FORMATS:
        print_data(measured, output)
    else:
        _print(measured, before)


@dataclass(frozen=True, slots=True)
class Doors:
    """The listeners of one server."""

    target: Target
    mqtt: str | None
    flight: str | None

    async def run(self, client: AsyncClient, kind: str, load: Load) -> Result:
        # What is to be read must be there; groups and streams begin at the earliest message.
        if kind not in _PUBLISHING and (await client.queue(load.queue)).messages < load.messages:
            await bench_http.publish(client, replace(load, batch=min(load.batch, _PREPARED_BATCH)))
        if kind in _MQTT:
            from penstock.cli.bench import mqtt as bench_mqtt

            run = bench_mqtt.publish if kind == "mqtt-publish" else bench_mqtt.consume
            return await run(mqtt_options(self.mqtt), load)
        if kind in _FLIGHT:
            from penstock.cli.bench import flight as bench_flight

            act = bench_flight.publish if kind == "flight-publish" else bench_flight.read
            return await act(self._flight_login(), self.target.options.namespace, load)
        return await _HTTP_LOADS[kind](client, load)

    def _flight_login(self) -> FlightLogin:
        """That of HTTP: the server has one list of users and keys."""
        if self.flight is None:
            raise click.UsageError("give the address of Arrow Flight: --flight grpc://host:port (listeners.flight)")
        options = self.target.options
        files = options.tls
        return FlightLogin(
            self.flight,
            options.token or options.api_key,
            options.username,
            options.password,
            Path(files.ca_file) if isinstance(files, TlsFiles) and files.ca_file is not None else None,
        )


def _read(file: Path) -> Saved:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Saved)
    except (OSError, msgspec.DecodeError) as error:
        raise InvalidArgument(f"{file} cannot be compared with ({error}): give what --save has written") from None


def _print(measured: Saved, before: Saved | None) -> None:
    columns = [*_COLUMNS, *([] if before is None else ["ratio"])]
    rows = [_row(result) + ([] if before is None else [_ratio(result, before)]) for result in measured.results]
    print_table(columns, rows, numbers=columns[1:])
    if before is not None and any(row[-1] == _NO_RATIO for row in rows):
        click.echo("no ratio: size, connections and batch must be the same as in the saved results", err=True)


def _row(result: Result) -> list[object]:
    shape = result.messages, result.size_bytes, result.connections, result.batch
    latency = [f"{result.latency_ms.get(name, 0):.2f}" for name in ("p50", "p99", "max")]
    return [result.kind, *shape, f"{result.messages_per_s:,.0f}", *latency]


def _ratio(result: Result, before: Saved) -> str:
    """Of messages a second, to the same load of before."""
    shape = result.kind, result.size_bytes, result.connections, result.batch
    same = [each for each in before.results if (each.kind, each.size_bytes, each.connections, each.batch) == shape]
    if not same or not same[0].messages_per_s:
        return _NO_RATIO
    return f"{result.messages_per_s / same[0].messages_per_s:.2f}"
