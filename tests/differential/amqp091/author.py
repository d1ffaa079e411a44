"""Writes a script from a seed while a broker plays it: it knows what is open and what is not settled, so that most of
what it asks for makes sense, and some of it does not."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.differential.amqp091.script import Connect, Drop, Say, Step, Wait, publish, say
from tests.differential.amqp091.told import Told

QUEUES = ("differ.q0", "differ.q1", "differ.q2", "differ.q3", "differ.q4")
EXCHANGES: Mapping[str, str] = {
    "differ.direct": "direct",
    "differ.fanout": "fanout",
    "differ.topic": "topic",
    "differ.headers": "headers",
}
GIVEN = ("amq.direct", "amq.fanout", "amq.topic", "amq.headers")
KEYS = ("", "a", "b", "a.b", "a.b.c", "*.b", "a.#", "#")
CHANNELS = (1, 2, 3)
EXPIRY_MS, EXPIRED_MS = 20, 150
_ARGUMENTS: Sequence[Mapping[str, Any]] = (
    {},
    {},
    {},
    {"x-max-length": 2},
    {"x-max-length": 1, "x-overflow": "reject-publish"},
    {"x-max-length-bytes": 6},
    {"x-max-priority": 3},
    {"x-message-ttl": 600_000},
    {"x-expires": 600_000},
    {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "differ.q0"},
    {"x-dead-letter-exchange": "differ.direct"},
    {"x-dead-letter-exchange": "amq.fanout", "x-max-length": 1},
    {"x-single-active-consumer": True},
    {"x-queue-mode": "lazy"},
)
_WRONG: Sequence[Mapping[str, Any]] = (
    {"x-max-length": -1},
    {"x-message-ttl": "60"},
    {"x-expires": 0},
    {"x-overflow": "strange"},
    {"x-queue-type": "strange"},
    {"x-dead-letter-routing-key": "k"},
    {"x-max-length": 3, "x-message-ttl": 5},
)
_PROPERTIES: Sequence[Mapping[str, Any]] = (
    {},
    {},
    {"delivery_mode": 2},
    {"priority": 1},
    {"priority": 7, "delivery_mode": 2},
    {"message_id": "m", "correlation_id": "c", "reply_to": "r"},
    {"content_type": "text/plain", "headers": {"a": 1, "b": "x"}},
    {"headers": {"a": ["l", 1], "t": True, "n": ["F", {"d": ["d", 0.5]}]}},
    {"expiration": "600000"},
)


@dataclass
class Channel:
    unacked: list[int] = field(default_factory=list)
    consumers: list[str] = field(default_factory=list)
    has_tx: bool = False


class Author:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.steps = self._random.randint(30, 200)
        self._connections = self._random.randint(1, 3)
        self._open: dict[tuple[int, int], Channel] = {}
        self._connected: set[int] = set()
        self._declared: dict[str, Mapping[str, Any]] = {}
        self._exchanges: set[str] = set()
        self._forced: list[Step] = []
        self._bodies = 0
        self._prepared = False

    def next(self) -> Step:
        if self._forced:
            return self._forced.pop(0)
        absent = [on for on in range(self._connections) if on not in self._connected]
        if absent:
            return Connect(self._random.choice(absent))
        if not self._prepared and (open_now := sorted(self._open)):
            # Without queues little can happen.
            self._prepared = True
            on, channel = open_now[0]
            self._forced = [self._declare(on, channel) for _ in range(2)] + [self._exchange_declare(on, channel)]
        on = self._random.randrange(self._connections)
        channel = self._random.choice(CHANNELS[: self._random.randint(1, 3)])
        if (on, channel) not in self._open:
            return self._where_nothing_is_open(on, channel)
        [kind] = self._random.choices(list(_WEIGHTS), list(_WEIGHTS.values()))
        return kind(self, on, channel)

    def see(self, step: Step, came: Mapping[str, Sequence[Told]]) -> None:
        if isinstance(step, Connect):
            self._connected.add(step.on)
        elif isinstance(step, Drop):
            self._gone(step.on)
        elif isinstance(step, Say):
            self._said(step)
        for where, each in came.items():
            on = int(where.partition(".")[0])
            for what in each:
                self._heard(on, what)

    def _heard(self, on: int, what: Told) -> None:
        if "closed" in what:
            self._gone(on)
            return
        name, channel = what.get("method"), what.get("channel", 0)
        if name == "channel.open-ok":
            self._open[on, channel] = Channel()
        elif name in ("channel.close", "channel.close-ok"):
            self._open.pop((on, channel), None)
        elif name in ("connection.close", "connection.close-ok"):
            self._gone(on)
        elif name in ("basic.deliver", "basic.get-ok") and (on, channel) in self._open:
            self._open[on, channel].unacked.append(what["delivery_tag"])
        elif name == "tx.select-ok":
            self._open[on, channel].has_tx = True
        elif name == "queue.declare-ok" and what["queue"].startswith("<gen"):
            self._declared[what["queue"]] = {"queue": what["queue"]}
        elif name in ("basic.consume-ok", "basic.cancel"):
            found = self._open[on, channel].consumers
            tag = what["consumer_tag"]
            if name == "basic.cancel":
                self._open[on, channel].consumers = [each for each in found if each != tag]
            else:
                found.append(tag)

    def _said(self, step: Say) -> None:
        channel = self._open.get((step.on, step.channel))
        if channel is None:
            return
        if step.method in ("basic.ack", "basic.nack", "basic.reject"):
            tag, multiple = step.fields["delivery_tag"], step.fields.get("multiple", False)
            if multiple:
                channel.unacked = [each for each in channel.unacked if each > tag and tag]
            else:
                channel.unacked = [each for each in channel.unacked if each != tag]
        elif step.method.startswith("basic.recover"):
            channel.unacked = []
        elif step.method == "basic.cancel":
            channel.consumers = [each for each in channel.consumers if each != step.fields["consumer_tag"]]
        elif step.method == "exchange.declare" and not step.fields.get("passive"):
            self._exchanges.add(step.fields["exchange"])
        elif step.method == "exchange.delete":
            self._exchanges.discard(step.fields["exchange"])
        elif step.method == "queue.declare" and step.fields["queue"] and not step.fields.get("passive"):
            self._declared.setdefault(step.fields["queue"], step.fields)
        elif step.method == "queue.delete":
            self._declared.pop(step.fields["queue"], None)

    def _gone(self, on: int) -> None:
        self._connected.discard(on)
        for where in [where for where in self._open if where[0] == on]:
            del self._open[where]

    def _maybe(self, chance: float) -> bool:
        return self._random.random() < chance

    def _queue(self) -> str:
        return (
            self._random.choice(sorted(self._declared) or QUEUES) if self._maybe(0.95) else self._random.choice(QUEUES)
        )

    def _exchange(self) -> str:
        names: list[str] = [*(EXCHANGES if self._maybe(0.03) else sorted(self._exchanges)), *GIVEN]
        return self._random.choice(names)

    def _where_nothing_is_open(self, on: int, channel: int) -> Step:
        if self._maybe(0.01):
            return say("queue.declare", channel, on, queue=self._queue())
        return say("channel.open", channel, on)

    def _declare(self, on: int, channel: int) -> Step:
        name = "" if self._maybe(0.1) else self._random.choice(QUEUES)
        if name in self._declared and self._maybe(0.8):
            return Say("queue.declare", self._declared[name], channel, on)
        arguments = self._random.choice(_WRONG if self._maybe(0.05) else _ARGUMENTS)
        flags = {
            "passive": self._maybe(0.1),
            "durable": self._maybe(0.5),
            "exclusive": self._maybe(0.1),
            "auto_delete": self._maybe(0.1),
        }
        flags["durable"] = flags["durable"] and not flags["exclusive"]
        said = {flag: True for flag, is_set in flags.items() if is_set}
        return say("queue.declare", channel, on, queue=name, arguments=dict(arguments), **said)

    def _delete(self, on: int, channel: int) -> Step:
        said = {flag: True for flag in ("if_unused", "if_empty") if self._maybe(0.3)}
        return say("queue.delete", channel, on, queue=self._queue(), **said)

    def _purge(self, on: int, channel: int) -> Step:
        return say("queue.purge", channel, on, queue=self._queue())

    def _bind(self, on: int, channel: int) -> Step:
        arguments = {"x-match": self._random.choice(("all", "any")), "a": 1} if self._maybe(0.3) else {}
        method = "queue.bind" if self._maybe(0.8) else "queue.unbind"
        return say(
            method,
            channel,
            on,
            queue=self._queue(),
            exchange=self._exchange(),
            routing_key=self._random.choice((*KEYS, self._queue())),
            arguments=arguments,
        )

    def _exchange_declare(self, on: int, channel: int) -> Step:
        name = self._random.choice(list(EXCHANGES))
        kind = EXCHANGES[name] if self._maybe(0.9) else self._random.choice(list(EXCHANGES.values()))
        said: dict[str, Any] = {flag: True for flag in ("auto_delete", "internal", "passive") if self._maybe(0.04)}
        if self._maybe(0.1):
            said["arguments"] = {"alternate-exchange": self._random.choice(["amq.fanout", "differ.none"])}
        return say("exchange.declare", channel, on, exchange=name, kind=kind, durable=True, **said)

    def _exchange_delete(self, on: int, channel: int) -> Step:
        said = {"if_unused": True} if self._maybe(0.5) else {}
        return say("exchange.delete", channel, on, exchange=self._exchange(), **said)

    def _exchange_bind(self, on: int, channel: int) -> Step:
        method = "exchange.bind" if self._maybe(0.8) else "exchange.unbind"
        names = {"destination": self._exchange(), "source": self._exchange()}
        return say(method, channel, on, **names, routing_key=self._random.choice(KEYS))

    def _publish(self, on: int, channel: int) -> Step:
        self._bodies += 1
        properties = dict(self._random.choice(_PROPERTIES))
        flags = {"mandatory": True} if self._maybe(0.3) else {}
        exchange, key = "", self._queue()
        if self._maybe(0.4):
            exchange, key = self._exchange(), self._random.choice((*KEYS[:5], self._queue()))
        if self._maybe(0.02):
            exchange = "differ.none"
        if self._maybe(0.03):
            properties["expiration"] = str(EXPIRY_MS)
            self._forced.append(Wait(EXPIRED_MS, on))
        elif self._maybe(0.03):
            properties["headers"] = {"CC": [["S", self._queue()], ["S", self._queue()]]}
        return publish(exchange, key, f"{self._bodies}", channel, on, properties, **flags)

    def _get(self, on: int, channel: int) -> Step:
        return say("basic.get", channel, on, queue=self._queue(), **({"no_ack": True} if self._maybe(0.4) else {}))

    def _consume(self, on: int, channel: int) -> Step:
        if self._open[on, channel].consumers and self._maybe(0.97):
            # Of several queues nobody knows which delivers first on a channel.
            return self._get(on, channel)
        said: dict[str, Any] = {
            flag: True for flag, chance in (("no_ack", 0.3), ("exclusive", 0.05)) if self._maybe(chance)
        }
        if self._maybe(0.1):
            said["arguments"] = {"x-priority": self._random.randint(-1, 2)}
        return say(
            "basic.consume", channel, on, queue=self._queue(), consumer_tag=self._random.choice("abcdef"), **said
        )

    def _cancel(self, on: int, channel: int) -> Step:
        tags = self._open[on, channel].consumers
        tag = self._random.choice(tags) if tags and self._maybe(0.9) else "unknown"
        return say("basic.cancel", channel, on, consumer_tag=tag)

    def _settle(self, on: int, channel: int) -> Step:
        unacked = self._open[on, channel].unacked
        if not unacked and self._maybe(0.9):
            return self._publish(on, channel)
        tag = self._random.choice(unacked) if unacked and self._maybe(0.97) else self._random.randint(0, 9)
        method = self._random.choice(("basic.ack", "basic.ack", "basic.ack", "basic.nack", "basic.reject"))
        said: dict[str, Any] = {"delivery_tag": tag}
        if method != "basic.ack":
            said["requeue"] = self._maybe(0.5)
        if method != "basic.reject" and self._maybe(0.3):
            said["multiple"] = True
        return say(method, channel, on, **said)

    def _recover(self, on: int, channel: int) -> Step:
        return say(self._random.choice(("basic.recover", "basic.recover-async")), channel, on, requeue=True)

    def _qos(self, on: int, channel: int) -> Step:
        said = {"is_global": True} if self._maybe(0.3) else {}
        return say("basic.qos", channel, on, prefetch_count=self._random.choice((0, 1, 1, 2, 3)), **said)

    def _mode(self, on: int, channel: int) -> Step:
        is_tx = self._open[on, channel].has_tx
        names = (
            ("tx.commit", "tx.commit", "tx.rollback") if is_tx else ("confirm.select", "confirm.select", "tx.select")
        )
        return say(self._random.choice(names), channel, on)

    def _wrong(self, on: int, channel: int) -> Step:
        return self._random.choice(
            [
                say("queue.declare", channel, on, queue="differ.none", passive=True),
                say("exchange.declare", channel, on, exchange="amq.mine", kind="direct"),
                say("queue.declare", channel, on, queue="amq.mine"),
                say("queue.bind", channel, on, queue=self._queue(), exchange=""),
                say("basic.ack", channel, on, delivery_tag=77),
                say("basic.get", channel, on, queue="differ.none"),
                say("basic.consume", channel, on, queue="differ.none"),
                say("tx.commit", channel, on),
                say("basic.qos", channel, on, prefetch_size=1),
                publish("", self._queue(), "x", channel, on, {"expiration": "soon"}),
                publish("", self._queue(), "x", channel, on, {"user_id": "other"}),
            ]
        )

    def _flow(self, on: int, channel: int) -> Step:
        return say("channel.flow", channel, on, active=True)

    def _leave(self, on: int, channel: int) -> Step:
        what = self._random.random()
        if what < 0.7:
            return say("channel.close", channel, on)
        return say("connection.close", 0, on, reply_code=200) if what < 0.85 else Drop(on)


_WEIGHTS: Mapping[Callable[[Author, int, int], Step], float] = {
    Author._declare: 12,
    Author._delete: 2,
    Author._purge: 1,
    Author._bind: 8,
    Author._exchange_declare: 4,
    Author._exchange_delete: 1,
    Author._exchange_bind: 2,
    Author._publish: 30,
    Author._get: 10,
    Author._consume: 6,
    Author._cancel: 2,
    Author._settle: 20,
    Author._recover: 1.5,
    Author._qos: 3,
    Author._mode: 4,
    Author._wrong: 1.5,
    Author._flow: 0.5,
    Author._leave: 1.5,
}
