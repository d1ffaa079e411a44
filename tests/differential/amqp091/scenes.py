"""Scripts of what the specification leaves open, each about one thing: recorded from RabbitMQ as the mistakes are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tests.differential.amqp091.mistakes import BARE, EXCHANGE, OPEN, PUBLISH, QUEUE, TWO, declared, frame, header, made
from tests.differential.amqp091.script import Connect, Drop, Plain, Say, Script, Wait, publish, say

DEAD = "differ.dead"
_TERMS: Sequence[Mapping[str, Plain]] = (
    {"x-match": "all", "a": 1, "b": "x"},
    {"x-match": "any", "a": 1, "b": "x"},
    {"a": 1},
    {},
    {"x-match": "all-with-x", "x-a": 1},
    {"x-match": "all", "x-a": 1},
    {"x-match": "any"},
    {"a": ["V", None]},
)
"""of bindings to a headers exchange"""


def bound(queue: str = QUEUE, exchange: str = EXCHANGE, key: str = "k", **arguments: Plain) -> Say:
    return say("queue.bind", queue=queue, exchange=exchange, routing_key=key, arguments=arguments)


def get(queue: str = QUEUE, **fields: Plain) -> Say:
    return say("basic.get", queue=queue, **fields)


def consume(queue: str = QUEUE, tag: str = "c", channel: int = 1, on: int = 0, **fields: Plain) -> Say:
    return say("basic.consume", channel, on, queue=queue, consumer_tag=tag, **fields)


def bodies(*texts: str, queue: str = QUEUE, **properties: Plain) -> list[Say]:
    return [publish(key=queue, body=text, properties=properties) for text in texts]


def ack(tag: int, channel: int = 1, on: int = 0, **fields: bool) -> Say:
    return say("basic.ack", channel, on, delivery_tag=tag, **fields)


def nack(tag: int, channel: int = 1, on: int = 0, **fields: bool) -> Say:
    return say("basic.nack", channel, on, delivery_tag=tag, **fields)


def reject(tag: int, requeue: bool, channel: int = 1) -> Say:
    return say("basic.reject", channel, delivery_tag=tag, requeue=requeue)


def _confirms() -> Iterator[tuple[str, Script]]:
    select = say("confirm.select")
    yield "confirm-unroutable", [*OPEN, select, publish(key="differ.none")]
    yield "return-comes-before-the-ack", [*OPEN, select, publish(key="differ.none", body="x", mandatory=True)]
    yield "confirm-select-twice", [*OPEN, select, select, declared(), *bodies("1", "2")]
    yield "confirm-select-nowait", [*OPEN, say("confirm.select", nowait=True), declared(), *bodies("1")]
    yield (
        "confirm-numbers-are-a-channels",
        [
            *OPEN,
            select,
            say("channel.open", 2),
            say("confirm.select", 2),
            declared(),
            publish(key=QUEUE),
            publish(key=QUEUE, channel=2),
            publish(key=QUEUE),
        ],
    )
    yield "confirm-counts-from-select-on", [*OPEN, declared(), *bodies("1", "2"), select, *bodies("3")]
    yield "confirm-after-a-refusal", [*OPEN, select, publish("differ.none", "k"), say("channel.open"), select]
    yield (
        "return-carries-everything",
        [
            *OPEN,
            made(),
            publish(EXCHANGE, "k", "body", mandatory=True, properties={"message_id": "1", "headers": {"h": 1}}),
        ],
    )
    yield "mandatory-and-routed", [*OPEN, declared(), publish(key=QUEUE, mandatory=True)]
    yield (
        "mandatory-with-alternate-exchange",
        [
            *OPEN,
            declared(DEAD),
            made(arguments={"alternate-exchange": "amq.fanout"}),
            bound(DEAD, "amq.fanout"),
            publish(EXCHANGE, "k", "x", mandatory=True),
            get(DEAD),
        ],
    )
    yield (
        "alternate-exchange-missing",
        [
            *OPEN,
            made(arguments={"alternate-exchange": "differ.none"}),
            publish(EXCHANGE, "k", "x", mandatory=True),
        ],
    )
    yield (
        "reject-publish-is-a-nack",
        [
            *OPEN,
            select,
            declared(arguments={"x-max-length": 1, "x-overflow": "reject-publish"}),
            *bodies("1", "2", "3"),
            get(),
            get(),
        ],
    )
    yield (
        "reject-publish-with-unacked",
        [
            *OPEN,
            select,
            declared(arguments={"x-max-length": 1, "x-overflow": "reject-publish"}),
            *bodies("1"),
            get(),
            *bodies("2", "3"),
            nack(1),
            get(),
            get(),
        ],
    )
    yield (
        "reject-publish-to-one-of-two",
        [
            *OPEN,
            select,
            declared(arguments={"x-max-length": 0, "x-overflow": "reject-publish"}),
            declared(DEAD),
            bound(QUEUE, "amq.fanout"),
            bound(DEAD, "amq.fanout"),
            publish("amq.fanout", "", "x", mandatory=True),
            get(DEAD),
        ],
    )


def _gets() -> Iterator[tuple[str, Script]]:
    yield "get-on-empty", [*OPEN, declared(), get()]
    yield "get-tells-what-is-left", [*OPEN, declared(), *bodies("1", "2", "3"), get(), get(no_ack=True), get(), get()]
    yield "get-of-the-queue-declared-last", [*OPEN, declared(), publish(key=QUEUE, body="x"), get("")]
    yield "get-and-tags-of-consumers", [*OPEN, declared(), *bodies("1"), get(), consume(), *bodies("2", "3")]
    yield (
        "get-with-unfilled-prefetch",
        [*OPEN, say("basic.qos", prefetch_count=1), declared(), *bodies("1", "2"), get()],
    )
    yield (
        "get-beside-a-consumer",
        [
            *TWO,
            declared(),
            say("basic.qos", prefetch_count=1),
            consume(),
            *bodies("1", "2"),
            say("basic.get", on=1, queue=QUEUE),
        ],
    )
    yield (
        "requeued-goes-to-its-place",
        [
            *OPEN,
            declared(),
            *bodies("1", "2", "3"),
            get(),
            get(),
            reject(1, True),
            get(),
            nack(2),
            get(),
            get(),
        ],
    )
    yield (
        "nack-multiple-requeued-in-order",
        [
            *OPEN,
            declared(),
            *bodies("1", "2", "3", "4"),
            get(),
            get(),
            get(),
            nack(2, multiple=True),
            get(),
            get(),
            get(),
        ],
    )
    yield "nack-0-multiple-is-all", [*OPEN, declared(), *bodies("1", "2"), get(), get(), nack(0, multiple=True), get()]
    yield (
        "ack-0-multiple-is-all",
        [
            *OPEN,
            declared(),
            *bodies("1", "2"),
            get(),
            get(),
            ack(0, multiple=True),
            declared(passive=True),
        ],
    )
    yield (
        "ack-out-of-order",
        [
            *OPEN,
            declared(),
            *bodies("1", "2", "3"),
            get(),
            get(),
            get(),
            ack(2),
            ack(3, multiple=True),
            declared(passive=True),
            ack(1),
        ],
    )
    yield (
        "ack-multiple-over-holes",
        [
            *OPEN,
            declared(),
            *bodies("1", "2", "3"),
            get(),
            get(),
            get(),
            ack(2),
            ack(3, multiple=True),
            say("channel.close"),
            say("channel.open"),
            get(),
        ],
    )
    yield (
        "unacked-come-back-when-the-channel-closes",
        [
            *OPEN,
            declared(),
            *bodies("1", "2"),
            get(),
            say("channel.close"),
            say("channel.open"),
            declared(passive=True),
            get(),
            get(),
        ],
    )
    yield (
        "unacked-come-back-when-the-socket-closes",
        [
            *TWO,
            declared(),
            *bodies("1", "2"),
            get(),
            Drop(),
            say("queue.declare", on=1, queue=QUEUE, passive=True),
            say("basic.get", on=1, queue=QUEUE),
        ],
    )
    yield (
        "unacked-come-back-after-an-error",
        [
            *TWO,
            declared(),
            *bodies("1"),
            get(),
            ack(7),
            say("basic.get", on=1, queue=QUEUE),
        ],
    )


def _consumers() -> Iterator[tuple[str, Script]]:
    qos = say("basic.qos", prefetch_count=1)
    yield "consume-ok-comes-before-deliveries", [*OPEN, declared(), *bodies("1", "2"), consume()]
    yield "consume-with-a-tag-of-the-server", [*OPEN, declared(), *bodies("1"), consume(tag="")]
    yield "consume-nowait", [*OPEN, declared(), *bodies("1"), consume(nowait=True)]
    yield "consume-nowait-without-tag", [*OPEN, declared(), *bodies("1"), consume(tag="", nowait=True)]
    yield "consume-no-local-has-no-meaning", [*OPEN, declared(), consume(no_local=True), *bodies("1")]
    yield "prefetch-1", [*OPEN, declared(), qos, *bodies("1", "2", "3"), consume(), ack(1), nack(2), ack(3)]
    yield (
        "prefetch-is-a-consumers",
        [
            *OPEN,
            declared(),
            qos,
            consume(tag="a"),
            say("basic.qos", prefetch_count=2),
            consume(tag="b"),
            *bodies(*"12345"),
        ],
    )
    yield (
        "prefetch-global-is-the-channels",
        [
            *OPEN,
            declared(),
            say("basic.qos", prefetch_count=2, is_global=True),
            consume(tag="a"),
            consume(tag="b"),
            *bodies(*"12345"),
            ack(1),
            ack(3, multiple=True),
        ],
    )
    yield (
        "prefetch-both",
        [
            *OPEN,
            declared(),
            say("basic.qos", prefetch_count=3, is_global=True),
            say("basic.qos", prefetch_count=2),
            consume(tag="a"),
            consume(tag="b"),
            *bodies(*"12345"),
            ack(1),
        ],
    )
    yield (
        "prefetch-global-raised-later",
        [
            *OPEN,
            declared(),
            say("basic.qos", prefetch_count=1, is_global=True),
            consume(),
            *bodies(*"12345"),
            say("basic.qos", prefetch_count=3, is_global=True),
            say("basic.qos", prefetch_count=0, is_global=True),
        ],
    )
    yield (
        "prefetch-counts-gets-too",
        [
            *OPEN,
            declared(),
            say("basic.qos", prefetch_count=2, is_global=True),
            *bodies(*"1234"),
            get(),
            consume(),
            ack(1),
        ],
    )
    yield "prefetch-does-not-count-no-ack", [*OPEN, declared(), qos, consume(no_ack=True), *bodies(*"123")]
    yield (
        "cancel-keeps-the-unacked",
        [
            *OPEN,
            declared(),
            *bodies("1", "2"),
            qos,
            consume(),
            say("basic.cancel", consumer_tag="c"),
            declared(passive=True),
            ack(1),
            get(),
        ],
    )
    yield (
        "cancel-nowait",
        [*OPEN, declared(), consume(), say("basic.cancel", consumer_tag="c", nowait=True), *bodies("1")],
    )
    yield (
        "cancel-twice",
        [
            *OPEN,
            declared(),
            consume(),
            say("basic.cancel", consumer_tag="c"),
            say("basic.cancel", consumer_tag="c"),
        ],
    )
    yield "cancel-and-tag-again", [*OPEN, declared(), consume(), say("basic.cancel", consumer_tag="c"), consume()]
    yield (
        "tags-are-a-channels",
        [*OPEN, declared(), say("channel.open", 2), consume(), consume(channel=2), *bodies("1", "2")],
    )
    yield (
        "cancel-notify-on-delete",
        [
            *TWO,
            declared(),
            *bodies("1", "2"),
            qos,
            consume(),
            say("queue.delete", on=1, queue=QUEUE),
            ack(1),
            get(),
        ],
    )
    yield "cancel-notify-of-ones-own-delete", [*OPEN, declared(), consume(), say("queue.delete", queue=QUEUE)]
    yield (
        "no-cancel-notify-without-capability",
        [
            Connect(lacks=["consumer_cancel_notify"]),
            say("channel.open"),
            declared(),
            consume(),
            say("queue.delete", queue=QUEUE),
            say("basic.cancel", consumer_tag="c"),
        ],
    )
    yield "round-robin", [*OPEN, declared(), consume(tag="a"), consume(tag="b"), consume(tag="c"), *bodies(*"1234567")]
    yield "round-robin-over-connections", [*TWO, declared(), consume(), consume(on=1), *bodies(*"12345")]
    yield (
        "round-robin-with-backlog",
        [
            *OPEN,
            declared(),
            *bodies(*"123456"),
            qos,
            consume(tag="a"),
            consume(tag="b"),
            ack(2),
            ack(1),
            ack(4, multiple=True),
        ],
    )
    yield (
        "round-robin-after-a-full-one",
        [
            *OPEN,
            declared(),
            qos,
            consume(tag="a"),
            consume(tag="b"),
            consume(tag="c"),
            *bodies(*"123"),
            ack(2),
            *bodies(*"45"),
            ack(1),
            ack(3),
            *bodies(*"67"),
        ],
    )
    yield (
        "priorities",
        [
            *OPEN,
            declared(),
            qos,
            consume(tag="low"),
            consume(tag="high", arguments={"x-priority": 5}),
            consume(tag="mid", arguments={"x-priority": 1}),
            *bodies(*"1234"),
            ack(1),
            ack(2),
            *bodies(*"5"),
        ],
    )
    yield (
        "single-active-consumer",
        [
            *TWO,
            declared(arguments={"x-single-active-consumer": True}),
            consume(),
            consume(on=1),
            *bodies(*"12"),
            say("basic.cancel", consumer_tag="c"),
            *bodies(*"34"),
            say("channel.close"),
        ],
    )
    yield (
        "exclusive-consumer-goes",
        [
            *TWO,
            declared(),
            consume(exclusive=True),
            say("basic.cancel", consumer_tag="c"),
            consume(on=1),
            *bodies("1"),
        ],
    )
    yield (
        "get-beside-an-exclusive-consumer",
        [
            *TWO,
            declared(),
            qos,
            consume(exclusive=True),
            *bodies("1", "2"),
            say("basic.get", on=1, queue=QUEUE),
        ],
    )
    yield (
        "redelivered",
        [
            *OPEN,
            declared(),
            *bodies("1"),
            qos,
            consume(),
            reject(1, True),
            say("basic.cancel", consumer_tag="c"),
            reject(2, True),
            get(),
        ],
    )
    yield "requeued-comes-to-another", [*TWO, declared(), qos, consume(), *bodies("1"), consume(on=1), reject(1, True)]
    yield "recover", [*OPEN, declared(), *bodies("1", "2", "3"), consume(), ack(2), say("basic.recover", requeue=True)]
    yield (
        "recover-with-gets",
        [*OPEN, declared(), *bodies("1", "2"), get(), get(), say("basic.recover", requeue=True), get()],
    )
    yield (
        "recover-async",
        [*OPEN, declared(), *bodies("1", "2"), get(), say("basic.recover-async", requeue=True), get()],
    )
    yield "recover-of-nothing", [*OPEN, say("basic.recover", requeue=True)]
    yield "flow-active", [*OPEN, say("channel.flow", active=True)]
    yield "no-ack-consumer", [*OPEN, declared(), consume(no_ack=True), *bodies("1", "2"), declared(passive=True)]


def _queues() -> Iterator[tuple[str, Script]]:
    yield "server-named", [*OPEN, declared(""), declared("", passive=True), declared("", exclusive=True), get("")]
    yield (
        "server-named-is-used-by-name",
        [*OPEN, declared("", exclusive=True), publish(key="<gen:0>", body="x"), get("<gen:0>")],
    )
    yield (
        "declare-counts",
        [
            *OPEN,
            declared(),
            *bodies("1", "2"),
            declared(),
            say("basic.qos", prefetch_count=1),
            consume(),
            declared(),
            consume(tag="d"),
            declared(passive=True),
        ],
    )
    yield (
        "declare-passive-ignores-arguments",
        [
            *OPEN,
            declared(durable=True),
            declared(passive=True, arguments={"x-max-length": 1}, auto_delete=True),
        ],
    )
    yield "declare-nowait", [*OPEN, declared(nowait=True), declared(passive=True)]
    yield "declare-nowait-mistake", [*OPEN, declared(passive=True, nowait=True), declared()]
    yield "delete-counts", [*OPEN, declared(), *bodies("1", "2", "3"), get(), say("queue.delete", queue=QUEUE)]
    yield "delete-nowait", [*OPEN, declared(), say("queue.delete", queue=QUEUE, nowait=True), declared(passive=True)]
    yield (
        "delete-with-unacked-only-if-empty",
        [*OPEN, declared(), *bodies("1"), get(), say("queue.delete", queue=QUEUE, if_empty=True)],
    )
    yield (
        "delete-then-ack",
        [*OPEN, declared(), *bodies("1"), get(), say("queue.delete", queue=QUEUE), ack(1), declared()],
    )
    yield (
        "purge-counts",
        [*OPEN, declared(), *bodies("1", "2", "3"), get(), say("queue.purge", queue=QUEUE), nack(1), get(), get()],
    )
    yield "auto-delete-without-consumers-stays", [*OPEN, declared(auto_delete=True), get(), declared(passive=True)]
    yield (
        "auto-delete-goes-with-the-last-consumer",
        [
            *OPEN,
            declared(auto_delete=True),
            consume(tag="a"),
            consume(tag="b"),
            say("basic.cancel", consumer_tag="a"),
            declared(passive=True),
            say("basic.cancel", consumer_tag="b"),
            declared(passive=True),
        ],
    )
    yield (
        "auto-delete-goes-with-the-channel",
        [
            *TWO,
            declared(auto_delete=True),
            consume(),
            say("channel.close"),
            say("queue.declare", on=1, queue=QUEUE, passive=True),
        ],
    )
    yield (
        "exclusive-goes-with-its-connection",
        [
            *TWO,
            declared(exclusive=True),
            say("connection.close", 0),
            say("queue.declare", on=1, queue=QUEUE, passive=True),
        ],
    )
    yield (
        "exclusive-goes-with-its-socket",
        [*TWO, declared(exclusive=True), Drop(), say("queue.declare", on=1, queue=QUEUE, passive=True)],
    )
    yield (
        "exclusive-stays-when-its-channel-closes",
        [*OPEN, declared(exclusive=True), say("channel.close"), say("channel.open"), declared(passive=True)],
    )
    yield (
        "exclusive-takes-publishes-of-others",
        [*TWO, declared(exclusive=True), publish(key=QUEUE, body="x", on=1), get()],
    )
    yield "exclusive-declared-durable-again", [*OPEN, declared(exclusive=True), declared(exclusive=True, durable=True)]
    yield "consumes-of-nothing-more", [*OPEN, declared(), say("queue.delete", queue=QUEUE), consume()]
    yield (
        "names-with-blanks",
        [*OPEN, declared("differ q/+#$ü"), publish(key="differ q/+#$ü", body="x"), get("differ q/+#$ü")],
    )
    yield (
        "max-priority",
        [
            *OPEN,
            declared(arguments={"x-max-priority": 3}),
            *bodies("0"),
            *bodies("2", priority=2),
            *bodies("9", priority=9),
            *bodies("1", priority=1),
            get(),
            get(),
            get(),
            get(),
        ],
    )
    yield (
        "binding-goes-with-the-queue",
        [
            *OPEN,
            declared(),
            bound(QUEUE, "amq.direct"),
            say("queue.delete", queue=QUEUE),
            publish("amq.direct", "k", mandatory=True),
        ],
    )
    yield (
        "bind-twice-delivers-once",
        [
            *OPEN,
            declared(),
            bound(QUEUE, "amq.direct"),
            bound(QUEUE, "amq.direct"),
            bound(QUEUE, "amq.direct", "j"),
            publish("amq.direct", "k", "x"),
            get(),
            get(),
            say("queue.unbind", queue=QUEUE, exchange="amq.direct", routing_key="k"),
            publish("amq.direct", "k", "x", mandatory=True),
        ],
    )
    yield (
        "bind-with-other-arguments-is-another",
        [
            *OPEN,
            declared(),
            bound(QUEUE, "amq.direct", a=1),
            say("queue.unbind", queue=QUEUE, exchange="amq.direct", routing_key="k"),
            publish("amq.direct", "k", "x", mandatory=True),
            get(),
        ],
    )
    yield (
        "bind-without-queue-and-key",
        [*OPEN, declared(), bound("", "amq.direct", ""), publish("amq.direct", QUEUE, "x"), get()],
    )
    yield (
        "bind-transient-to-durable-exchange",
        [*OPEN, declared(), bound(QUEUE, "amq.direct"), publish("amq.direct", "k"), get()],
    )
    yield "expires", [*OPEN, declared(arguments={"x-expires": 100}), Wait(300), declared(passive=True)]
    yield (
        "expires-not-with-a-consumer",
        [*OPEN, declared(arguments={"x-expires": 100}), consume(), Wait(300), *bodies("1")],
    )


def _exchanges() -> Iterator[tuple[str, Script]]:
    yield (
        "topic-keys",
        [
            *OPEN,
            *(
                step
                for name, key in enumerate(["a.*.c", "a.#", "#.c", "*", "#", "a..c"])
                for step in (declared(f"differ.t{name}"), bound(f"differ.t{name}", "amq.topic", key))
            ),
            *(publish("amq.topic", key, key) for key in ("a.b.c", "a.c", "a", "", "a..c", "b.c")),
            *(get(f"differ.t{name}", no_ack=True) for name in range(6) for _ in range(6)),
        ],
    )
    yield (
        "headers",
        [
            *OPEN,
            *(
                step
                for name, terms in enumerate(_TERMS)
                for step in (declared(f"differ.h{name}"), bound(f"differ.h{name}", "amq.headers", "", **terms))
            ),
            *(
                publish("amq.headers", "", str(number), properties={"headers": headers} if headers is not None else {})
                for number, headers in enumerate(
                    [None, {}, {"a": 1}, {"a": "1"}, {"a": 1, "b": "x"}, {"x-a": 1}, {"a": ["l", 1]}]
                )
            ),
            *(get(f"differ.h{name}", no_ack=True) for name in range(8) for _ in range(7)),
        ],
    )
    yield (
        "exchange-to-exchange",
        [
            *OPEN,
            made(),
            made("differ.f", "fanout"),
            say("exchange.bind", destination="differ.f", source=EXCHANGE, routing_key="k"),
            say("exchange.bind", destination=EXCHANGE, source="differ.f"),
            declared(),
            bound(QUEUE, "differ.f"),
            bound(QUEUE, EXCHANGE),
            publish(EXCHANGE, "k", "x"),
            get(),
            get(),
            say("exchange.unbind", destination="differ.f", source=EXCHANGE, routing_key="k"),
            publish(EXCHANGE, "k", "y"),
            get(),
        ],
    )
    yield (
        "exchange-auto-delete",
        [
            *OPEN,
            made(auto_delete=True),
            declared(),
            bound(),
            say("queue.unbind", queue=QUEUE, exchange=EXCHANGE, routing_key="k"),
            made(passive=True),
        ],
    )
    yield (
        "exchange-auto-delete-with-the-queue",
        [*OPEN, made(auto_delete=True), declared(), bound(), say("queue.delete", queue=QUEUE), made(passive=True)],
    )
    yield (
        "exchange-auto-delete-as-destination",
        [
            *OPEN,
            made(auto_delete=True),
            made("differ.f", "fanout", auto_delete=True),
            say("exchange.bind", destination=EXCHANGE, source="differ.f"),
            say("exchange.unbind", destination=EXCHANGE, source="differ.f"),
            made(passive=True),
            made("differ.f", "fanout", passive=True),
        ],
    )
    yield (
        "exchange-passive",
        [*OPEN, made(), made(kind="fanout", passive=True, durable=True), made("amq.topic", "topic", passive=True)],
    )
    yield (
        "exchange-nowait",
        [
            *OPEN,
            made(nowait=True),
            made(passive=True),
            say("exchange.delete", exchange=EXCHANGE, nowait=True),
            made(passive=True),
        ],
    )
    yield (
        "exchange-internal-takes-from-exchanges",
        [
            *OPEN,
            made(internal=True, kind="fanout"),
            say("exchange.bind", destination=EXCHANGE, source="amq.fanout"),
            declared(),
            bound(),
            publish("amq.fanout", "k", "x"),
            get(),
        ],
    )
    yield (
        "cc-and-bcc",
        [
            *OPEN,
            declared(),
            declared(DEAD),
            declared("differ.bcc"),
            publish(key=QUEUE, body="x", properties={"headers": {"CC": [["S", DEAD]], "BCC": [["S", "differ.bcc"]]}}),
            get(),
            get(DEAD),
            get("differ.bcc"),
        ],
    )
    yield "default-exchange-is-told", [*OPEN, declared(), *bodies("1"), get()]
    yield (
        "alternate-chain",
        [
            *OPEN,
            made("differ.f", "direct", arguments={"alternate-exchange": "amq.fanout"}),
            made(arguments={"alternate-exchange": "differ.f"}),
            declared(),
            bound(QUEUE, "amq.fanout"),
            publish(EXCHANGE, "k", "x"),
            get(),
        ],
    )


def _letters() -> Iterator[tuple[str, Script]]:
    to_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD}
    yield (
        "dlx-rejected",
        [
            *OPEN,
            declared(DEAD),
            declared(arguments=to_dead),
            publish(key=QUEUE, body="x", properties={"headers": {"h": 1}, "message_id": "1", "expiration": "60000"}),
            get(),
            reject(1, False),
            get(DEAD),
            get(),
        ],
    )
    yield (
        "dlx-nack-multiple",
        [
            *OPEN,
            declared(DEAD),
            declared(arguments=to_dead),
            *bodies(*"123"),
            get(),
            get(),
            get(),
            nack(2, multiple=True, requeue=False),
            get(DEAD),
            get(DEAD),
            get(DEAD),
        ],
    )
    yield (
        "dlx-expired",
        [
            *OPEN,
            declared(DEAD),
            declared(arguments={**to_dead, "x-message-ttl": 50}),
            publish(key=QUEUE, body="x"),
            publish(key=QUEUE, body="y", properties={"expiration": "20"}),
            Wait(250),
            get(DEAD),
            get(DEAD),
        ],
    )
    yield (
        "dlx-expiration-is-taken-off",
        [
            *OPEN,
            declared(DEAD),
            declared(arguments=to_dead),
            publish(key=QUEUE, body="x", properties={"expiration": "20"}),
            Wait(150),
            get(DEAD),
        ],
    )
    yield (
        "dlx-maxlen",
        [
            *OPEN,
            declared(DEAD),
            declared(arguments={**to_dead, "x-max-length": 2}),
            *bodies(*"123"),
            get(DEAD),
            get(),
            *bodies(*"4"),
            get(DEAD),
        ],
    )
    yield (
        "dlx-maxlen-bytes",
        [
            *OPEN,
            declared(DEAD),
            declared(arguments={**to_dead, "x-max-length-bytes": 5}),
            *bodies("123", "45", "67"),
            get(DEAD),
            get(DEAD),
            get(),
        ],
    )
    yield (
        "dlx-reject-publish-dlx",
        [
            *OPEN,
            say("confirm.select"),
            declared(DEAD),
            declared(arguments={**to_dead, "x-max-length": 1, "x-overflow": "reject-publish-dlx"}),
            *bodies(*"12"),
            get(DEAD),
            get(),
        ],
    )
    yield (
        "dlx-keeps-the-key",
        [
            *OPEN,
            declared(DEAD),
            bound(DEAD, "amq.direct", QUEUE),
            declared(arguments={"x-dead-letter-exchange": "amq.direct"}),
            *bodies("x"),
            get(),
            reject(1, False),
            get(DEAD),
        ],
    )
    yield (
        "dlx-missing-drops",
        [
            *OPEN,
            declared(arguments={"x-dead-letter-exchange": "differ.none"}),
            *bodies("x"),
            get(),
            reject(1, False),
            get(),
        ],
    )
    yield (
        "dlx-twice-counts",
        [
            *OPEN,
            declared(DEAD, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": QUEUE}),
            declared(arguments=to_dead),
            *bodies("x"),
            get(),
            reject(1, False),
            get(DEAD),
            reject(2, False),
            get(),
            reject(3, False),
            get(DEAD),
        ],
    )
    yield (
        "dlx-cycle-by-expiry-is-dropped",
        [
            *OPEN,
            declared(
                DEAD, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": QUEUE, "x-message-ttl": 30}
            ),
            declared(arguments={**to_dead, "x-message-ttl": 30}),
            *bodies("x"),
            Wait(400),
            declared(passive=True),
            declared(DEAD, passive=True, arguments={}),
        ],
    )
    yield (
        "dlx-to-itself",
        [
            *OPEN,
            declared(arguments={"x-dead-letter-exchange": "", "x-message-ttl": 30}),
            *bodies("x"),
            Wait(200),
            get(),
        ],
    )
    yield (
        "dlx-cc-is-rewritten",
        [
            *OPEN,
            declared(DEAD),
            declared(arguments=to_dead),
            publish(key=QUEUE, body="x", properties={"headers": {"CC": [["S", "other"]], "BCC": [["S", "hidden"]]}}),
            get(),
            reject(1, False),
            get(DEAD),
        ],
    )
    yield (
        "dlx-purge-and-delete-are-not-dead",
        [
            *OPEN,
            declared(DEAD),
            declared(arguments=to_dead),
            *bodies(*"12"),
            say("queue.purge", queue=QUEUE),
            *bodies(*"3"),
            say("queue.delete", queue=QUEUE),
            get(DEAD),
        ],
    )
    yield (
        "ttl-0-with-a-consumer",
        [*OPEN, declared(arguments={"x-message-ttl": 0}), *bodies("1"), get(), consume(), *bodies("2")],
    )
    yield (
        "ttl-of-unacked",
        [
            *OPEN,
            declared(arguments={"x-message-ttl": 50}),
            *bodies("1"),
            get(),
            Wait(200),
            reject(1, True),
            Wait(100),
            get(),
        ],
    )
    yield (
        "ttl-behind-a-longer-one",
        [
            *OPEN,
            declared(),
            publish(key=QUEUE, body="long"),
            publish(key=QUEUE, body="short", properties={"expiration": "20"}),
            Wait(150),
            declared(passive=True),
            get(),
            get(),
        ],
    )
    yield (
        "expiration-is-kept-in-the-message",
        [*OPEN, declared(), publish(key=QUEUE, body="x", properties={"expiration": "60000"}), get()],
    )
    yield (
        "delivery-limit-of-quorum",
        [
            *OPEN,
            declared(DEAD),
            declared(durable=True, arguments={**to_dead, "x-queue-type": "quorum", "x-delivery-limit": 1}),
            *bodies("x"),
            get(),
            reject(1, True),
            get(),
            reject(2, True),
            Wait(200),
            get(DEAD),
        ],
    )


def _transactions() -> Iterator[tuple[str, Script]]:
    select, commit, rollback = say("tx.select"), say("tx.commit"), say("tx.rollback")
    yield (
        "tx-publishes",
        [*OPEN, declared(), select, *bodies("1", "2"), declared(passive=True), commit, declared(passive=True)],
    )
    yield (
        "tx-rolled-back",
        [*OPEN, declared(), select, *bodies("1"), rollback, declared(passive=True), *bodies("2"), commit, get()],
    )
    yield (
        "tx-acks",
        [
            *OPEN,
            declared(),
            *bodies("1", "2"),
            select,
            get(),
            ack(1),
            declared(passive=True),
            commit,
            say("channel.close"),
            say("channel.open"),
            get(),
        ],
    )
    yield (
        "tx-acks-rolled-back",
        [*OPEN, declared(), *bodies("1"), select, get(), ack(1), rollback, ack(1), commit, declared(passive=True)],
    )
    yield "tx-rejects", [*OPEN, declared(), *bodies("1"), select, get(), reject(1, True), get(), commit, get()]
    yield "tx-returns-at-the-commit", [*OPEN, select, publish(key="differ.none", body="x", mandatory=True), commit]
    yield "tx-returns-twice", [*OPEN, select, publish(key="differ.none", body="x", mandatory=True), rollback, commit]
    yield "tx-select-twice", [*OPEN, declared(), select, *bodies("1"), select, commit, declared(passive=True)]
    yield (
        "tx-closed",
        [*OPEN, declared(), select, *bodies("1"), say("channel.close"), say("channel.open"), declared(passive=True)],
    )
    yield "tx-ack-twice", [*OPEN, declared(), *bodies("1"), select, get(), ack(1), ack(1)]
    yield "tx-unknown-after-ack", [*OPEN, declared(), *bodies("1"), select, get(), ack(1), commit, ack(1)]


def _replies() -> Iterator[tuple[str, Script]]:
    consumer = say("basic.consume", queue="amq.rabbitmq.reply-to", no_ack=True, consumer_tag="r")
    yield (
        "direct-reply-to",
        [
            *TWO,
            declared(),
            consumer,
            publish(key=QUEUE, body="ask", properties={"reply_to": "amq.rabbitmq.reply-to", "correlation_id": "7"}),
            say("basic.get", on=1, queue=QUEUE, no_ack=True),
            say("queue.declare", on=1, queue="<reply:0>", passive=True),
            publish(key="<reply:0>", body="answer", on=1, mandatory=True, properties={"correlation_id": "7"}),
            say("channel.close"),
            publish(key="<reply:0>", body="late", on=1, mandatory=True),
            say("queue.declare", on=1, queue="<reply:0>", passive=True),
        ],
    )
    yield (
        "direct-reply-to-declare",
        [*OPEN, declared("amq.rabbitmq.reply-to", passive=True), declared("amq.rabbitmq.reply-to")],
    )
    yield "direct-reply-to-cancel", [*OPEN, consumer, say("basic.cancel", consumer_tag="r"), consumer]
    yield (
        "direct-reply-to-with-confirms",
        [
            *TWO,
            declared(),
            consumer,
            publish(key=QUEUE, body="ask", properties={"reply_to": "amq.rabbitmq.reply-to"}),
            say("basic.get", on=1, queue=QUEUE, no_ack=True),
            say("confirm.select", on=1),
            publish(key="<reply:0>", body="answer", on=1),
        ],
    )


def _closing() -> Iterator[tuple[str, Script]]:
    yield "channel-close-and-reopen", [*OPEN, say("channel.close"), say("channel.open"), declared()]
    yield "channel-error-and-reopen", [*OPEN, declared(passive=True), say("channel.open"), declared()]
    yield "connection-close", [*OPEN, say("connection.close", 0, reply_code=200, reply_text="bye")]
    yield (
        "channels-close-with-an-error-alone",
        [*OPEN, say("channel.open", 2), declared(passive=True), say("queue.declare", 2, queue=QUEUE)],
    )
    yield "channel-close-in-a-content", [*BARE, PUBLISH, header(5), say("channel.close")]
    yield "body-in-pieces", [*OPEN, declared(), publish(key=QUEUE, body="x" * 300_000), get()]
    yield "body-empty", [*OPEN, declared(), publish(key=QUEUE), get()]
    yield "body-empty-with-a-frame", [*BARE, PUBLISH, header(0), frame(3, 1, b"")]
    yield (
        "body-in-many-pieces",
        [
            *BARE,
            declared(),
            say("confirm.select"),
            PUBLISH,
            header(3),
            frame(3, 1, b"a"),
            frame(3, 1, b""),
            frame(3, 1, b"bc"),
        ],
    )
    yield (
        "channels-interleave",
        [
            *BARE,
            say("channel.open", 2),
            PUBLISH,
            header(1),
            say("confirm.select", 2),
            frame(3, 1, b"x"),
        ],
    )
    yield (
        "properties-of-every-kind",
        [
            *OPEN,
            declared(),
            publish(
                key=QUEUE,
                body="x",
                properties={
                    "content_type": "text/plain",
                    "content_encoding": "gzip",
                    "delivery_mode": 2,
                    "priority": 3,
                    "correlation_id": "c",
                    "reply_to": "r",
                    "expiration": "60000",
                    "message_id": "m",
                    "timestamp": 1_700_000_000,
                    "type": "t",
                    "user_id": "guest",
                    "app_id": "a",
                    "cluster_id": "k",
                    "headers": {
                        "t": True,
                        "b": ["b", -5],
                        "B": ["B", 5],
                        "s": ["s", -500],
                        "u": ["u", 500],
                        "I": ["I", -70_000],
                        "i": ["i", 70_000],
                        "l": ["l", -(2**40)],
                        "f": ["f", 1.5],
                        "d": ["d", 2.5],
                        "S": "text",
                        "x": ["x", "\x00\xff"],
                        "T": ["T", 1_700_000_000],
                        "V": ["V", None],
                        "A": ["A", [["I", 1], ["S", "two"]]],
                        "F": ["F", {"inner": ["F", {"deep": ["I", 1]}]}],
                    },
                },
            ),
            get(),
        ],
    )


SCENES: Mapping[str, Script] = {
    name: list(script)
    for part in (_confirms, _gets, _consumers, _queues, _exchanges, _letters, _transactions, _replies, _closing)
    for name, script in part()
}
