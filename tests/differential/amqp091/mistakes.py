"""Scripts each of which makes one mistake, in its last steps: what RabbitMQ says to it is recorded by `record`, and
every broker is held against that."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.differential.amqp091.script import Connect, Dial, Raw, Say, Script, Step, Wait, publish, say

HELLO = "AMQP\x00\x00\x09\x01"
QUEUE, EXCHANGE = "differ.q", "differ.e"
MAX_MESSAGE_BYTES = 16_515_072
"""which RabbitMQ is set to: Penstock's"""
_SILENT = Wait(3500)
"""Before a connection is open, RabbitMQ says nothing, and closes the socket after three seconds."""


def frame(kind: int, channel: int, payload: bytes, end: int = 0xCE, size: int | None = None) -> Raw:
    head = struct.pack(">BHI", kind, channel, len(payload) if size is None else size)
    return Raw((head + payload + bytes([end])).decode("latin-1"))


def method(class_id: int, method_id: int, arguments: bytes = b"", channel: int = 1) -> Raw:
    return frame(1, channel, struct.pack(">HH", class_id, method_id) + arguments)


PUBLISH = method(60, 40, b"\0\0\0\x01q\0")


def header(size: int, class_id: int = 60, weight: int = 0, properties: bytes = b"\0\0", channel: int = 1) -> Raw:
    return frame(2, channel, struct.pack(">HHQ", class_id, weight, size) + properties)


BARE: Sequence[Step] = (Connect(is_bare=True), say("channel.open"))
OPEN: Sequence[Step] = (Connect(), say("channel.open"))
TWO: Sequence[Step] = (*OPEN, Connect(on=1), say("channel.open", on=1))


def declared(queue: str = QUEUE, on: int = 0, **fields: Any) -> Say:
    return say("queue.declare", on=on, queue=queue, **fields)


def made(exchange: str = EXCHANGE, kind: str = "direct", **fields: Any) -> Say:
    return say("exchange.declare", exchange=exchange, kind=kind, **fields)


def _bytes_and_order() -> Iterator[tuple[str, Script]]:
    yield "header-of-another-protocol", [Dial(), Raw("HTTP/1.1")]
    yield "header-of-another-version", [Dial(), Raw("AMQP\x00\x00\x08\x00")]
    yield "header-of-amqp-1-0", [Dial(), Raw("AMQP\x00\x01\x00\x00")]
    yield "header-and-rubbish", [Dial(), Raw(HELLO + "rubbish rubbish rubbish"), _SILENT]
    yield "frame-end", [*BARE, frame(1, 1, b"\0\x14\0\x0a\0", end=0xCD)]
    yield "frame-end-of-a-body", [*BARE, PUBLISH, header(2), frame(3, 1, b"ab", end=0)]
    yield "frame-type", [*BARE, frame(7, 1, b"abc")]
    yield "frame-type-0", [*BARE, frame(0, 1, b"abc")]
    yield "frame-type-4", [*BARE, frame(4, 1, bytes(20))]
    yield "frame-too-large", [*BARE, frame(3, 1, bytes(40), size=131_073)]
    yield "frame-too-large-before-login", [Dial(), Raw(HELLO), frame(1, 0, bytes(5000), size=200_000), _SILENT]
    yield "frame-too-large-by-one", [*BARE, PUBLISH, header(131_065), frame(3, 1, bytes(131_065))]
    yield "heartbeat-with-payload", [*BARE, frame(8, 0, b"x")]
    yield "heartbeat-on-a-channel", [*BARE, frame(8, 1, b"")]
    yield "method-without-numbers", [*BARE, frame(1, 1, b"\0\x14")]
    yield "method-unknown", [*BARE, method(60, 99)]
    yield "class-unknown", [*BARE, method(99, 1)]
    yield "method-unknown-on-0", [*BARE, method(10, 99, channel=0)]
    yield "method-of-a-server", [*BARE, method(50, 11, b"\x01q" + bytes(8))]
    yield "method-of-a-server-deliver", [*BARE, method(60, 60, b"\x01c" + bytes(9) + b"\0\0")]
    yield "method-cut", [*BARE, method(50, 10, b"\0\0\x05ab")]
    yield "method-too-long", [*BARE, method(50, 10, b"\0\0\x01q\x01\0\0\0\0rest")]
    yield "shortstr-no-utf8", [*BARE, method(50, 10, b"\0\0\x02\xc3\x28\x00\0\0\0\0")]
    yield "table-cut", [*BARE, method(50, 10, b"\0\0\x01q\0" + struct.pack(">I", 9) + b"\x03abcS\0\0\0")]
    yield "table-unknown-type", [*BARE, method(50, 10, b"\0\0\x01q\0" + struct.pack(">I", 6) + b"\x03abc?\0")]
    yield "connection-method-on-a-channel", [*BARE, method(10, 50, b"\0\xc8\0\0\0\0\0")]
    yield "start-ok-again", [*BARE, method(10, 11, bytes(4) + b"\x05PLAIN\0\0\0\0\0", channel=0)]
    yield "open-again", [*BARE, method(10, 40, b"\x01/\0\0", channel=0)]
    yield "open-before-start", [Dial(), Raw(HELLO), method(10, 40, b"\x01/\0\0", channel=0), _SILENT]
    yield "channel-before-start", [Dial(), Raw(HELLO), method(20, 10, b"\0"), _SILENT]
    yield "channel-open-on-0", [*BARE, method(20, 10, b"\0", channel=0)]
    yield "queue-declare-on-0", [*BARE, method(50, 10, b"\0\0\x01q\0\0\0\0\0", channel=0)]
    yield "channel-open-twice", [*BARE, say("channel.open")]
    yield "channel-not-open", [Connect(is_bare=True), declared()]
    yield "channel-not-open-publish", [Connect(is_bare=True), publish(key=QUEUE)]
    yield "channel-not-open-ack", [Connect(is_bare=True), say("basic.ack", delivery_tag=1)]
    yield "channel-not-open-close", [Connect(is_bare=True), say("channel.close")]
    yield "channel-not-open-header", [Connect(is_bare=True), header(1)]
    yield "channel-closed-by-client", [*BARE, say("channel.close"), publish(key=QUEUE)]
    yield (
        "channel-max-exceeded",
        [
            Connect(is_bare=True, channel_max=2),
            *(say("channel.open", channel=number) for number in (1, 2, 3)),
        ],
    )
    yield "channel-number-above-max", [Connect(is_bare=True, channel_max=2), say("channel.open", channel=3)]
    yield "body-without-header", [*BARE, PUBLISH, frame(3, 1, b"ab")]
    yield "header-without-method", [*BARE, header(2)]
    yield "body-without-method", [*BARE, frame(3, 1, b"ab")]
    yield "method-instead-of-header", [*BARE, PUBLISH, method(20, 20, b"\x01")]
    yield "method-instead-of-body", [*BARE, PUBLISH, header(2), method(20, 20, b"\x01")]
    yield "header-instead-of-body", [*BARE, PUBLISH, header(2), header(2)]
    yield "header-of-another-class", [*BARE, PUBLISH, header(0, class_id=50)]
    yield "header-with-weight", [*BARE, PUBLISH, header(0, weight=1)]
    yield "body-too-long", [*BARE, PUBLISH, header(2), frame(3, 1, b"abc")]
    yield "properties-cut", [*BARE, PUBLISH, header(0, properties=b"\x80\0\x05ab")]
    yield "properties-unknown-flag", [*BARE, PUBLISH, header(0, properties=b"\0\x02")]
    yield "properties-with-continuation", [*BARE, PUBLISH, header(0, properties=b"\0\x01\0\0")]
    yield "properties-too-long", [*BARE, PUBLISH, header(0, properties=b"\0\0rest")]
    yield (
        "properties-table-unknown-type",
        [
            *BARE,
            declared(),
            method(60, 40, b"\0\0\0" + bytes([len(QUEUE)]) + QUEUE.encode() + b"\0"),
            header(0, properties=b"\x20\0" + struct.pack(">I", 6) + b"\x03abc?\0"),
        ],
    )
    yield "properties-table-cut", [*BARE, PUBLISH, header(0, properties=b"\x20\0" + struct.pack(">I", 90) + b"\x03ab")]


def _login() -> Iterator[tuple[str, Script]]:
    yield "login-wrong-password", [Connect(password="wrong")]
    yield (
        "login-wrong-password-without-capability",
        [
            Connect(password="wrong", lacks=["authentication_failure_close"]),
        ],
    )
    yield "login-unknown-user", [Connect(user="nobody")]
    yield "login-empty-response", [Connect(response="")]
    yield "login-malformed-response", [Connect(response="guest guest")]
    yield "login-unknown-mechanism", [Connect(mechanism="KERBEROS")]
    yield "login-mechanism-external", [Connect(mechanism="EXTERNAL", response="")]
    yield "login-amqplain-malformed", [Connect(mechanism="AMQPLAIN", response="\x00\x00")]
    yield "vhost-missing", [Connect(vhost="missing")]
    yield "vhost-refused", [Connect(user="stranger", password="stranger")]
    yield (
        "vhost-full",
        [
            Connect(user="few", password="few", vhost="small"),
            Connect(on=1, user="few", password="few", vhost="small"),
        ],
    )
    yield (
        "user-full",
        [
            Connect(user="once", password="once"),
            Connect(on=1, user="once", password="once"),
        ],
    )
    yield (
        "user-channels-full",
        [
            Connect(user="narrow", password="narrow", is_bare=True),
            say("channel.open"),
            say("channel.open", channel=2),
        ],
    )
    yield "tune-frame-max-too-small", [Connect(frame_max=4095)]
    yield "tune-frame-max-too-large", [Connect(frame_max=131_073)]
    yield "tune-channel-max-too-large", [Connect(channel_max=2048)]
    yield "tune-frame-max-0", [Connect(frame_max=0)]
    yield "secret-refused", [Connect(is_bare=True), say("connection.update-secret", channel=0, new_secret="latin-1:x")]


def _rights() -> Iterator[tuple[str, Script]]:
    limited = (Connect(user="limited", password="limited"), say("channel.open"))
    both = (*OPEN, Connect(on=1, user="limited", password="limited"), say("channel.open", on=1))
    yield "declare-refused", [*limited, declared()]
    yield "declare-passive-refused", [*both, declared(), declared(on=1, passive=True)]
    yield "declare-server-named-refused", [*limited, declared("")]
    yield (
        "declare-with-dlx-refused",
        [
            *limited,
            declared("may.q", arguments={"x-dead-letter-exchange": EXCHANGE}),
        ],
    )
    yield "exchange-declare-refused", [*limited, made()]
    yield "exchange-declare-alternate-refused", [*limited, made("may.e", arguments={"alternate-exchange": EXCHANGE})]
    yield "exchange-delete-refused", [*both, made(), say("exchange.delete", on=1, exchange=EXCHANGE)]
    yield "delete-refused", [*both, declared(), say("queue.delete", on=1, queue=QUEUE)]
    yield "delete-refused-missing", [*limited, say("queue.delete", queue=QUEUE)]
    yield "bind-refused", [*both, declared(), say("queue.bind", on=1, queue=QUEUE, exchange="amq.direct")]
    yield "bind-read-refused", [*limited, declared("may.q"), say("queue.bind", queue="may.q", exchange="amq.direct")]
    yield "purge-refused", [*both, declared(), say("queue.purge", on=1, queue=QUEUE)]
    yield "get-refused", [*both, declared(), say("basic.get", on=1, queue=QUEUE)]
    yield "consume-refused", [*both, declared(), say("basic.consume", on=1, queue=QUEUE)]
    yield "publish-refused", [*limited, publish("amq.direct", "k")]
    yield "publish-default-refused", [*limited, publish("", QUEUE)]
    yield (
        "publish-topic-refused",
        [
            Connect(user="topical", password="topical"),
            say("channel.open"),
            publish("amq.topic", "other.key"),
        ],
    )
    yield (
        "bind-topic-refused",
        [
            Connect(user="topical", password="topical"),
            say("channel.open"),
            declared("may.t"),
            say("queue.bind", queue="may.t", exchange="amq.topic", routing_key="other.key"),
        ],
    )
    yield "user-id", [*OPEN, declared(), publish(key=QUEUE, properties={"user_id": "other"})]
    yield "exclusive-of-another-declare", [*TWO, declared(exclusive=True), declared(on=1, exclusive=True)]
    yield "exclusive-of-another-declare-as-shared", [*TWO, declared(exclusive=True), declared(on=1)]
    yield "exclusive-of-another-passive", [*TWO, declared(exclusive=True), declared(on=1, passive=True)]
    yield "exclusive-of-another-consume", [*TWO, declared(exclusive=True), say("basic.consume", on=1, queue=QUEUE)]
    yield "exclusive-of-another-get", [*TWO, declared(exclusive=True), say("basic.get", on=1, queue=QUEUE)]
    yield "exclusive-of-another-purge", [*TWO, declared(exclusive=True), say("queue.purge", on=1, queue=QUEUE)]
    yield "exclusive-of-another-delete", [*TWO, declared(exclusive=True), say("queue.delete", on=1, queue=QUEUE)]
    yield (
        "exclusive-of-another-bind",
        [
            *TWO,
            declared(exclusive=True),
            say("queue.bind", on=1, queue=QUEUE, exchange="amq.direct"),
        ],
    )
    yield (
        "exclusive-of-another-unbind",
        [
            *TWO,
            declared(exclusive=True),
            say("queue.unbind", on=1, queue=QUEUE, exchange="amq.direct"),
        ],
    )


def _exchanges() -> Iterator[tuple[str, Script]]:
    yield "exchange-passive-missing", [*OPEN, made(passive=True)]
    yield "exchange-type", [*OPEN, made(kind="strange")]
    yield "exchange-type-empty", [*OPEN, made(kind="")]
    yield "exchange-reserved", [*OPEN, made("amq.mine")]
    yield "exchange-reserved-again", [*OPEN, made("amq.direct", durable=True)]
    yield "exchange-reserved-other", [*OPEN, made("amq.direct", "topic", durable=True)]
    yield "exchange-default", [*OPEN, made("")]
    yield "exchange-default-passive", [*OPEN, made("", passive=True)]
    yield "exchange-inequivalent-type", [*OPEN, made(), made(kind="fanout")]
    yield "exchange-inequivalent-durable", [*OPEN, made(), made(durable=True)]
    yield "exchange-inequivalent-auto-delete", [*OPEN, made(), made(auto_delete=True)]
    yield "exchange-inequivalent-internal", [*OPEN, made(), made(internal=True)]
    yield "exchange-inequivalent-alternate", [*OPEN, made(), made(arguments={"alternate-exchange": "a"})]
    yield (
        "exchange-inequivalent-alternate-other",
        [
            *OPEN,
            made(arguments={"alternate-exchange": "a"}),
            made(arguments={"alternate-exchange": "b"}),
        ],
    )
    yield "exchange-argument-other-ignored", [*OPEN, made(), made(arguments={"x-something": 1})]
    yield "exchange-alternate-of-wrong-type", [*OPEN, made(arguments={"alternate-exchange": 1})]
    yield "exchange-delete-reserved", [*OPEN, say("exchange.delete", exchange="amq.direct")]
    yield "exchange-delete-default", [*OPEN, say("exchange.delete", exchange="")]
    yield "exchange-delete-missing", [*OPEN, say("exchange.delete", exchange=EXCHANGE)]
    yield (
        "exchange-delete-in-use",
        [
            *OPEN,
            made(),
            declared(),
            say("queue.bind", queue=QUEUE, exchange=EXCHANGE),
            say("exchange.delete", exchange=EXCHANGE, if_unused=True),
        ],
    )
    yield (
        "exchange-bind-missing-source",
        [
            *OPEN,
            made(),
            say("exchange.bind", destination=EXCHANGE, source="differ.none"),
        ],
    )
    yield (
        "exchange-bind-missing-destination",
        [
            *OPEN,
            made(),
            say("exchange.bind", destination="differ.none", source=EXCHANGE),
        ],
    )
    yield "exchange-bind-both-missing", [*OPEN, say("exchange.bind", destination="differ.none", source="differ.non2")]
    yield "exchange-bind-default", [*OPEN, made(), say("exchange.bind", destination=EXCHANGE, source="")]
    yield "exchange-bind-to-default", [*OPEN, made(), say("exchange.bind", destination="", source=EXCHANGE)]
    yield (
        "exchange-unbind-none",
        [
            *OPEN,
            made(),
            say("exchange.unbind", destination=EXCHANGE, source="amq.fanout", routing_key="k"),
        ],
    )
    yield (
        "exchange-unbind-missing-source",
        [
            *OPEN,
            made(),
            say("exchange.unbind", destination=EXCHANGE, source="differ.none"),
        ],
    )
    yield (
        "exchange-headers-x-match",
        [
            *OPEN,
            declared(),
            say("queue.bind", queue=QUEUE, exchange="amq.headers", arguments={"x-match": "some"}),
        ],
    )
    yield (
        "exchange-headers-x-match-type",
        [
            *OPEN,
            declared(),
            say("queue.bind", queue=QUEUE, exchange="amq.headers", arguments={"x-match": 1}),
        ],
    )
    yield (
        "exchange-hash-weight",
        [
            *OPEN,
            made(kind="x-consistent-hash"),
            declared(),
            say("queue.bind", queue=QUEUE, exchange=EXCHANGE, routing_key="heavy"),
        ],
    )
    yield (
        "exchange-hash-weight-0",
        [
            *OPEN,
            made(kind="x-consistent-hash"),
            declared(),
            say("queue.bind", queue=QUEUE, exchange=EXCHANGE, routing_key="0"),
        ],
    )
    yield (
        "exchange-hash-header-and-property",
        [
            *OPEN,
            made(kind="x-consistent-hash", arguments={"hash-header": "h", "hash-property": "message_id"}),
        ],
    )
    yield (
        "exchange-hash-property",
        [
            *OPEN,
            made(kind="x-consistent-hash", arguments={"hash-property": "priority"}),
        ],
    )
    yield "exchange-name-newline", [*OPEN, made("differ\n.e")]
    yield "exchange-name-bind-missing-queue", [*OPEN, say("queue.bind", queue=QUEUE, exchange="amq.direct")]


ARGUMENTS: Mapping[str, Sequence[Any]] = {
    "x-message-ttl": [-1, "60", 1.5, 2**40, True],
    "x-expires": [0, -1, "60", 2**40],
    "x-max-length": [-1, "1", 1.5],
    "x-max-length-bytes": [-1, "1"],
    "x-max-priority": [-1, 256, "1"],
    "x-overflow": ["strange", 1],
    "x-dead-letter-exchange": [1],
    "x-dead-letter-routing-key": [1],
    "x-single-active-consumer": ["true", 1],
    "x-queue-type": ["strange", 1],
    "x-queue-mode": ["strange", 1],
    "x-queue-version": [3, "1"],
    "x-delivery-limit": [-1, "1"],
    "x-queue-master-locator": ["strange", 1],
    "x-max-age": ["strange", 1],
    "x-stream-max-segment-size-bytes": [-1],
    "x-max-in-memory-length": [-1],
    "x-quorum-initial-group-size": [0],
    "x-queue-leader-locator": ["strange"],
    "x-cancel-on-ha-failover": [1],
}
CHANGES: Mapping[str, tuple[Any, Any]] = {
    "x-message-ttl": (1000, 2000),
    "x-expires": (100_000, 200_000),
    "x-max-length": (1, 2),
    "x-max-length-bytes": (1, 2),
    "x-max-priority": (1, 2),
    "x-overflow": ("drop-head", "reject-publish"),
    "x-dead-letter-exchange": ("a", "b"),
    "x-single-active-consumer": (True, False),
    "x-queue-type": ("classic", "quorum"),
    "x-queue-mode": ("lazy", "default"),
    "x-queue-version": (1, 2),
}


def _queues() -> Iterator[tuple[str, Script]]:
    yield "queue-passive-missing", [*OPEN, declared(passive=True)]
    yield "queue-reserved", [*OPEN, declared("amq.mine")]
    yield "queue-reserved-passive", [*OPEN, declared("amq.mine", passive=True)]
    yield "queue-no-previous-passive", [*OPEN, declared("", passive=True)]
    yield "queue-no-previous-bind", [*OPEN, say("queue.bind", exchange="amq.direct")]
    yield "queue-no-previous-get", [*OPEN, say("basic.get")]
    yield "queue-no-previous-consume", [*OPEN, say("basic.consume")]
    yield "queue-no-previous-purge", [*OPEN, say("queue.purge")]
    yield "queue-no-previous-delete", [*OPEN, say("queue.delete")]
    yield "queue-inequivalent-durable", [*OPEN, declared(), declared(durable=True)]
    yield "queue-inequivalent-transient", [*OPEN, declared(durable=True), declared()]
    yield "queue-inequivalent-auto-delete", [*OPEN, declared(), declared(auto_delete=True)]
    yield "queue-inequivalent-exclusive", [*OPEN, declared(), declared(exclusive=True)]
    yield "queue-inequivalent-exclusive-own", [*OPEN, declared(exclusive=True), declared()]
    yield (
        "queue-inequivalent-two",
        [
            *OPEN,
            declared(arguments={"x-max-length": 1, "x-message-ttl": 1}),
            declared(arguments={"x-max-length": 2, "x-message-ttl": 2}),
        ],
    )
    for name, (first, second) in CHANGES.items():
        yield (
            f"queue-inequivalent-{name}",
            [
                *OPEN,
                declared(durable=True, arguments={name: first}),
                declared(durable=True, arguments={name: second}),
            ],
        )
        yield (
            f"queue-inequivalent-{name}-added",
            [
                *OPEN,
                declared(durable=True),
                declared(durable=True, arguments={name: second}),
            ],
        )
        yield (
            f"queue-inequivalent-{name}-removed",
            [
                *OPEN,
                declared(durable=True, arguments={name: first}),
                declared(durable=True),
            ],
        )
    yield (
        "queue-inequivalent-integers-equal",
        [
            *OPEN,
            declared(arguments={"x-max-length": ["l", 5]}),
            declared(arguments={"x-max-length": ["b", 5]}),
        ],
    )
    yield (
        "queue-inequivalent-of-other-type",
        [
            *OPEN,
            declared(arguments={"x-max-length": 5}),
            declared(arguments={"x-max-length": "5"}),
        ],
    )
    yield (
        "queue-argument-unknown-ignored",
        [
            *OPEN,
            declared(arguments={"x-own": 1}),
            declared(arguments={"x-own": 2}),
        ],
    )
    for name, values in ARGUMENTS.items():
        for value in values:
            yield f"queue-argument-{name}={value!r}", [*OPEN, declared(durable=True, arguments={name: value})]
    yield "queue-dlx-key-without-dlx", [*OPEN, declared(arguments={"x-dead-letter-routing-key": "k"})]
    yield "queue-dlx-missing-exchange", [*OPEN, declared(arguments={"x-dead-letter-exchange": "differ.none"})]
    yield "queue-quorum-transient", [*OPEN, declared(arguments={"x-queue-type": "quorum"})]
    yield (
        "queue-quorum-exclusive",
        [
            *OPEN,
            declared(durable=True, exclusive=True, arguments={"x-queue-type": "quorum"}),
        ],
    )
    yield (
        "queue-quorum-auto-delete",
        [
            *OPEN,
            declared(durable=True, auto_delete=True, arguments={"x-queue-type": "quorum"}),
        ],
    )
    yield "queue-quorum-server-named", [*OPEN, declared("", durable=True, arguments={"x-queue-type": "quorum"})]
    yield (
        "queue-quorum-priority",
        [
            *OPEN,
            declared(durable=True, arguments={"x-queue-type": "quorum", "x-max-priority": 1}),
        ],
    )
    yield (
        "queue-quorum-lazy",
        [
            *OPEN,
            declared(durable=True, arguments={"x-queue-type": "quorum", "x-queue-mode": "lazy"}),
        ],
    )
    yield (
        "queue-quorum-overflow-dlx",
        [
            *OPEN,
            declared(durable=True, arguments={"x-queue-type": "quorum", "x-overflow": "reject-publish-dlx"}),
        ],
    )
    yield (
        "queue-quorum-global-qos",
        [
            *OPEN,
            declared(durable=True, arguments={"x-queue-type": "quorum"}),
            say("basic.qos", prefetch_count=1, is_global=True),
            say("basic.consume", queue=QUEUE),
        ],
    )
    yield (
        "queue-quorum-sac-get",
        [
            *OPEN,
            declared(durable=True, arguments={"x-queue-type": "quorum", "x-single-active-consumer": True}),
            say("basic.get", queue=QUEUE),
        ],
    )
    yield (
        "queue-quorum-sac-get-other",
        [
            *TWO,
            declared(durable=True, arguments={"x-queue-type": "quorum", "x-single-active-consumer": True}),
            say("basic.consume", queue=QUEUE),
            say("basic.get", on=1, queue=QUEUE),
        ],
    )
    yield "queue-stream-transient", [*OPEN, declared(arguments={"x-queue-type": "stream"})]
    yield (
        "queue-stream-exclusive",
        [
            *OPEN,
            declared(durable=True, exclusive=True, arguments={"x-queue-type": "stream"}),
        ],
    )
    yield "queue-stream-server-named", [*OPEN, declared("", durable=True, arguments={"x-queue-type": "stream"})]
    stream = declared("differ.stream", durable=True, arguments={"x-queue-type": "stream"})
    yield (
        "queue-stream-ttl",
        [
            *OPEN,
            declared(durable=True, arguments={"x-queue-type": "stream", "x-message-ttl": 1}),
        ],
    )
    yield "queue-stream-get", [*OPEN, stream, say("basic.get", queue="differ.stream")]
    yield "queue-stream-purge", [*OPEN, stream, say("queue.purge", queue="differ.stream")]
    yield "queue-stream-consume-without-qos", [*OPEN, stream, say("basic.consume", queue="differ.stream")]
    yield (
        "queue-stream-consume-no-ack",
        [
            *OPEN,
            stream,
            say("basic.qos", prefetch_count=1),
            say("basic.consume", queue="differ.stream", no_ack=True),
        ],
    )
    yield (
        "queue-stream-consume-exclusive",
        [
            *OPEN,
            stream,
            say("basic.qos", prefetch_count=1),
            say("basic.consume", queue="differ.stream", exclusive=True),
        ],
    )
    yield (
        "queue-stream-offset",
        [
            *OPEN,
            stream,
            say("basic.qos", prefetch_count=1),
            say("basic.consume", queue="differ.stream", arguments={"x-stream-offset": "strange"}),
        ],
    )
    yield (
        "queue-stream-global-qos",
        [
            *OPEN,
            stream,
            say("basic.qos", prefetch_count=1, is_global=True),
            say("basic.consume", queue="differ.stream"),
        ],
    )
    yield "queue-delete-missing", [*OPEN, say("queue.delete", queue=QUEUE)]
    yield (
        "queue-delete-in-use",
        [
            *OPEN,
            declared(),
            say("basic.consume", queue=QUEUE),
            say("queue.delete", queue=QUEUE, if_unused=True),
        ],
    )
    yield (
        "queue-delete-not-empty",
        [
            *OPEN,
            declared(),
            publish(key=QUEUE),
            say("queue.delete", queue=QUEUE, if_empty=True),
        ],
    )
    yield (
        "queue-delete-in-use-and-not-empty",
        [
            *OPEN,
            declared(),
            publish(key=QUEUE),
            say("basic.consume", queue=QUEUE),
            say("queue.delete", queue=QUEUE, if_empty=True, if_unused=True),
        ],
    )
    yield "queue-purge-missing", [*OPEN, say("queue.purge", queue=QUEUE)]
    yield "queue-bind-missing-exchange", [*OPEN, declared(), say("queue.bind", queue=QUEUE, exchange="differ.none")]
    yield "queue-bind-both-missing", [*OPEN, say("queue.bind", queue=QUEUE, exchange="differ.none")]
    yield "queue-bind-default", [*OPEN, declared(), say("queue.bind", queue=QUEUE, exchange="", routing_key="k")]
    yield "queue-unbind-none", [*OPEN, declared(), say("queue.unbind", queue=QUEUE, exchange="amq.direct")]
    yield "queue-unbind-missing-queue", [*OPEN, say("queue.unbind", queue=QUEUE, exchange="amq.direct")]
    yield (
        "queue-unbind-missing-exchange",
        [
            *OPEN,
            declared(),
            say("queue.unbind", queue=QUEUE, exchange="differ.none"),
        ],
    )
    yield "queue-unbind-default", [*OPEN, declared(), say("queue.unbind", queue=QUEUE, exchange="", routing_key=QUEUE)]
    yield (
        "queue-limit",
        [
            Connect(user="few", password="few", vhost="small"),
            say("channel.open"),
            declared("one"),
            declared("two"),
        ],
    )


def _messages() -> Iterator[tuple[str, Script]]:
    yield "publish-missing-exchange", [*OPEN, publish("differ.none", "k")]
    yield "publish-missing-exchange-with-confirms", [*OPEN, say("confirm.select"), publish("differ.none", "k")]
    yield "publish-internal-exchange", [*OPEN, made(internal=True), publish(EXCHANGE, "k")]
    yield "publish-immediate", [*OPEN, publish("", QUEUE, immediate=True)]
    for expiration in ("-1", "1.5", "abc", "", "99999999999999", " 1", "1x", "4294967296"):
        yield (
            f"publish-expiration={expiration!r}",
            [
                *OPEN,
                declared(),
                publish(key=QUEUE, properties={"expiration": expiration}),
            ],
        )
    yield "publish-too-large", [*OPEN, declared(), publish(key=QUEUE, body="x" * (MAX_MESSAGE_BYTES + 1))]
    yield "publish-as-large-as-may-be", [*OPEN, declared(), publish(key=QUEUE, body="x" * MAX_MESSAGE_BYTES)]
    yield "publish-cc-no-array", [*OPEN, declared(), publish(key=QUEUE, properties={"headers": {"CC": "k"}})]
    yield "publish-cc-no-strings", [*OPEN, declared(), publish(key=QUEUE, properties={"headers": {"CC": [["I", 1]]}})]
    yield "publish-bcc-no-array", [*OPEN, declared(), publish(key=QUEUE, properties={"headers": {"BCC": 1}})]
    yield (
        "publish-priority-too-high",
        [
            *OPEN,
            declared(arguments={"x-max-priority": 3}),
            publish(key=QUEUE, properties={"priority": 200}),
        ],
    )
    yield "publish-missing-and-mandatory", [*OPEN, publish("", "differ.none", mandatory=True)]
    yield "get-missing", [*OPEN, say("basic.get", queue=QUEUE)]
    yield "consume-missing", [*OPEN, say("basic.consume", queue=QUEUE)]
    yield (
        "consume-tag-in-use",
        [
            *OPEN,
            declared(),
            say("basic.consume", queue=QUEUE, consumer_tag="t"),
            say("basic.consume", queue=QUEUE, consumer_tag="t"),
        ],
    )
    yield (
        "consume-exclusive-second",
        [
            *OPEN,
            declared(),
            say("basic.consume", queue=QUEUE, exclusive=True),
            say("basic.consume", queue=QUEUE),
        ],
    )
    yield (
        "consume-exclusive-beside",
        [
            *OPEN,
            declared(),
            say("basic.consume", queue=QUEUE),
            say("basic.consume", queue=QUEUE, exclusive=True),
        ],
    )
    yield (
        "consume-exclusive-with-sac",
        [
            *OPEN,
            declared(arguments={"x-single-active-consumer": True}),
            say("basic.consume", queue=QUEUE, exclusive=True),
        ],
    )
    yield (
        "consume-priority-no-number",
        [
            *OPEN,
            declared(),
            say("basic.consume", queue=QUEUE, arguments={"x-priority": "high"}),
        ],
    )
    yield "consume-reserved-tag", [*OPEN, declared(), say("basic.consume", queue=QUEUE, consumer_tag="amq.mine")]
    yield "cancel-unknown", [*OPEN, say("basic.cancel", consumer_tag="unknown")]
    yield "ack-unknown", [*OPEN, say("basic.ack", delivery_tag=7)]
    yield "ack-unknown-multiple", [*OPEN, say("basic.ack", delivery_tag=7, multiple=True)]
    yield "ack-0", [*OPEN, say("basic.ack", delivery_tag=0)]
    yield "ack-0-multiple", [*OPEN, say("basic.ack", delivery_tag=0, multiple=True)]
    yield "nack-unknown", [*OPEN, say("basic.nack", delivery_tag=7)]
    yield "nack-0-multiple", [*OPEN, say("basic.nack", delivery_tag=0, multiple=True)]
    yield "reject-unknown", [*OPEN, say("basic.reject", delivery_tag=7)]
    yield "reject-0", [*OPEN, say("basic.reject", delivery_tag=0)]
    got = (*OPEN, declared(), publish(key=QUEUE, body="1"), publish(key=QUEUE, body="2"), say("basic.get", queue=QUEUE))
    yield "ack-twice", [*got, say("basic.ack", delivery_tag=1), say("basic.ack", delivery_tag=1)]
    yield "ack-too-high", [*got, say("basic.ack", delivery_tag=2)]
    yield "ack-too-high-multiple", [*got, say("basic.ack", delivery_tag=2, multiple=True)]
    yield (
        "ack-twice-multiple",
        [
            *got,
            say("basic.get", queue=QUEUE),
            say("basic.ack", delivery_tag=2),
            say("basic.ack", delivery_tag=2, multiple=True),
        ],
    )
    yield (
        "ack-multiple-below-the-acked",
        [
            *got,
            say("basic.get", queue=QUEUE),
            say("basic.ack", delivery_tag=1),
            say("basic.ack", delivery_tag=1, multiple=True),
        ],
    )
    yield "ack-of-another-channel", [*got, say("channel.open", channel=2), say("basic.ack", channel=2, delivery_tag=1)]
    yield (
        "ack-of-no-ack",
        [
            *OPEN,
            declared(),
            publish(key=QUEUE),
            say("basic.get", queue=QUEUE, no_ack=True),
            say("basic.ack", delivery_tag=1),
        ],
    )
    yield "qos-prefetch-size", [*OPEN, say("basic.qos", prefetch_size=1)]
    yield "flow-inactive", [*OPEN, say("channel.flow", active=False)]
    yield "recover-without-requeue", [*OPEN, say("basic.recover", requeue=False)]
    yield "recover-async-without-requeue", [*OPEN, say("basic.recover-async", requeue=False)]
    yield "reply-to-with-acks", [*OPEN, say("basic.consume", queue="amq.rabbitmq.reply-to")]
    yield (
        "reply-to-twice",
        [
            *OPEN,
            say("basic.consume", queue="amq.rabbitmq.reply-to", no_ack=True, consumer_tag="a"),
            say("basic.consume", queue="amq.rabbitmq.reply-to", no_ack=True, consumer_tag="b"),
        ],
    )
    yield (
        "reply-to-without-consumer",
        [
            *OPEN,
            publish(key=QUEUE, properties={"reply_to": "amq.rabbitmq.reply-to"}),
        ],
    )
    yield "reply-to-declare-passive-dead", [*OPEN, declared("amq.rabbitmq.reply-to.dead", passive=True)]
    yield "reply-to-delete", [*OPEN, say("queue.delete", queue="amq.rabbitmq.reply-to")]
    yield "reply-to-get", [*OPEN, say("basic.get", queue="amq.rabbitmq.reply-to")]
    yield "access-request", [*BARE, say("access.request")]
    yield "confirm-in-tx", [*OPEN, say("tx.select"), say("confirm.select")]
    yield "tx-in-confirm", [*OPEN, say("confirm.select"), say("tx.select")]
    yield "commit-without-tx", [*OPEN, say("tx.commit")]
    yield "rollback-without-tx", [*OPEN, say("tx.rollback")]
    yield "tx-ack-unknown", [*OPEN, say("tx.select"), say("basic.ack", delivery_tag=1)]
    yield "tx-publish-missing-exchange", [*OPEN, say("tx.select"), publish("differ.none", "k")]


MISTAKES: Mapping[str, Script] = {
    name: script
    for part in (_bytes_and_order, _login, _rights, _exchanges, _queues, _messages)
    for name, script in part()
}
