"""`penstock subscribe`: messages of a server, over MQTT."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

import click

from penstock.cli.message.options import qos_option
from penstock.cli.message.text import text_or_base64
from penstock.cli.output import DATA_FORMATS, line_of, output_option
from penstock.cli.server_arguments import (
    ServerArguments,
    naming_queues,
    no_create_option,
    server_options,
    user_properties,
)
from penstock.client.mqtt.async_client import AsyncMqttClient
from penstock.client.mqtt.message import Message
from penstock.client.mqtt.options import MqttOptions
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import RetainHandling, Subscription
from penstock.codecs.mqtt.properties import NO_PROPERTIES, Properties

Render = Callable[[Message], bytes]
_QUEUES = ("$queue/", "$dlq/")
_FIELD = re.compile(r"%(\{[^}]*\}|.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SubscribeRequest:
    subscriptions: tuple[Subscription, ...]
    properties: Properties
    count: int | None


@click.command()
@click.argument("filters", metavar="FILTER...", nargs=-1, required=True)
@qos_option
@click.option(
    "--group",
    metavar="GROUP",
    help="Consume $queue/NAME as a member of this consumer group.  [default: a group of its own]",
)
@click.option(
    "--property",
    "properties",
    metavar="NAME=VALUE",
    multiple=True,
    help="User property of the subscription, like start=earliest or prefetch=10. Can be repeated.",
)
@click.option("--count", metavar="N", type=click.IntRange(min=1), help="End after N messages.")
@click.option("--no-retained", is_flag=True, help="Only new messages, no retained ones.")
@click.option(
    "--template",
    metavar="TEXT",
    help="Output format: %t topic, %p payload, %x payload in hex, %l its length, %q QoS, %r retained, "
    "%{NAME} a user property, %% a percent sign.",
)
@no_create_option
@server_options
@output_option("text", "raw")
def subscribe(
    server: ServerArguments,
    filters: tuple[str, ...],
    qos: int,
    group: str | None,
    properties: tuple[str, ...],
    count: int | None,
    no_retained: bool,
    template: str | None,
    no_create: bool,
    output: str,
) -> None:
    """Print messages as they come, until interrupted.

    Text output is the topic, a space, the payload and a newline. JSON output is one object per line; a payload that is
    not UTF-8 is in payload_base64. Raw output is the payloads and nothing else. A message of a queue is acknowledged
    after it is printed. The command reconnects when the connection is lost. A queue that does not exist is created, and
    the command says so; with --no-create it fails instead.

    \b
    Examples:
      penstock subscribe 'sensors/#'
      penstock subscribe 'sensors/+/temperature' --template '%t is %p' --count 10
      penstock subscribe '$queue/orders' --group billing -o json
      penstock subscribe '$SYS/#' -H broker.example.com --tls -u me --password-file secret
    """
    options = naming_queues(replace(server.options(), manual_ack=True), no_create)
    request = SubscribeRequest(
        _subscriptions(filters, qos, no_retained, options.version),
        _properties(filters, group, user_properties(properties), options.version),
        count,
    )
    asyncio.run(_print_all(options, request, _render(output, template)))


def _subscriptions(filters: tuple[str, ...], qos: int, no_retained: bool, version: Version) -> tuple[Subscription, ...]:
    if no_retained and version is Version.V3_1_1:
        raise click.UsageError("--no-retained needs MQTT 5: leave it out, or use version 5")
    handling = RetainHandling.NEVER if no_retained else RetainHandling.SEND
    return tuple(Subscription(each, qos, retain_handling=handling) for each in filters)


def _properties(
    filters: tuple[str, ...], group: str | None, given: tuple[tuple[str, str], ...], version: Version
) -> Properties:
    """PUBACK settles, unless something else is asked for: whoever prints has nothing more to say."""
    is_of_queues = any(each.startswith(_QUEUES) for each in filters)
    if group is not None and not is_of_queues:
        raise click.UsageError("--group is for queues: subscribe to '$queue/NAME', or to '$share/GROUP/FILTER'")
    if version is Version.V3_1_1:
        if group is not None or given:
            raise click.UsageError("MQTT 3.1.1 has no user properties: leave --group and --property out")
        return NO_PROPERTIES
    pairs = given if group is None else (("consumer-group", group), *given)
    if is_of_queues and not any(name == "ack-mode" for name, _ in pairs):
        pairs = (*pairs, ("ack-mode", "puback"))
    return Properties(user_properties=pairs)


async def _print_all(options: MqttOptions, request: SubscribeRequest, render: Render) -> None:
    left = request.count
    async with AsyncMqttClient(options) as client:
        await client.subscribe(*request.subscriptions, properties=request.properties)
        while left != 0:
            message = await client.receive()
            sys.stdout.buffer.write(render(message))
            sys.stdout.buffer.flush()
            client.ack(message)
            left = None if left is None else left - 1


def _render(output: str, template: str | None) -> Render:
    if template is not None:
        if output != "text":
            raise click.UsageError("--template sets the output format: leave -o out")
        return lambda message: _filled(template, message) + b"\n"
    if output in DATA_FORMATS:
        return lambda message: line_of(message_json(message), output)
    if output == "raw":
        return lambda message: message.payload
    return lambda message: message.topic.encode() + b" " + message.payload + b"\n"


def _filled(template: str, message: Message) -> bytes:
    made = bytearray()
    at = 0
    for match in _FIELD.finditer(template):
        made += template[at : match.start()].encode() + _field(match[1], message)
        at = match.end()
    return bytes(made + template[at:].encode())


def _field(name: str, message: Message) -> bytes:
    """An unknown one is printed as it was written."""
    fixed = {
        "t": message.topic.encode(),
        "p": message.payload,
        "l": b"%d" % len(message.payload),
        "q": b"%d" % message.qos,
        "r": b"%d" % message.retain,
        "%": b"%",
    }
    if name == "x":
        return message.payload.hex().encode()
    if name.startswith("{"):
        return (message.header(name[1:-1]) or "").encode()
    return fixed.get(name, f"%{name}".encode())


def message_json(message: Message) -> dict[str, object]:
    """Only the fields it has."""
    said = message.properties
    found: dict[str, object] = {"topic": message.topic, "qos": message.qos, "retain": message.retain}
    found |= text_or_base64("payload", message.payload)
    found |= {} if said.content_type is None else {"content_type": said.content_type}
    found |= {} if said.response_topic is None else {"response_topic": said.response_topic}
    found |= {} if said.correlation_data is None else text_or_base64("correlation_data", said.correlation_data)
    expiry_s = said.message_expiry_interval_s
    found |= {} if expiry_s is None else {"expiry_s": expiry_s}
    return found | ({"properties": [list(pair) for pair in said.user_properties]} if said.user_properties else {})
