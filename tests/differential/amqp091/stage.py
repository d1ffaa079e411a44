"""Runs a script against a broker, one step after the other: a step is over when nothing more comes of it.

That is found out by asking: on each connection a channel of its own asks for every queue that was declared there, which
goes behind what is on its way to the queue, then every channel is asked to flow, which goes behind what is on its way
from it. When a whole round has brought nothing, nothing is on its way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tests.differential.amqp091.peer import DEADLINE_S, Gone, Login, Peer, Refused, Said, Silent
from tests.differential.amqp091.script import (
    Connect,
    Dial,
    Drop,
    Raw,
    Say,
    Script,
    Step,
    Wait,
    method_of,
    properties_of,
)
from tests.differential.amqp091.told import Names, Told, told

from penstock.codecs.amqp091.methods import (
    BasicAck,
    BasicGet,
    BasicGetEmpty,
    BasicNack,
    ChannelClose,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ExchangeDelete,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
)

Transcript: TypeAlias = list[dict[str, list[Told]]]
"""For each step, what came: by connection and channel"""

PROBE = 2000
"""the channel that asks"""
EMPTY = "differ.nobody"
"""a queue that is always empty"""
BARE_S, DROPPED_S = 0.25, 0.05
_ROUNDS = 20


@dataclass
class Open:
    """A connection of a script, and what is known of it."""

    peer: Peer
    is_bare: bool
    vhost: str = "/"
    channels: set[int] = field(default_factory=set)
    queues: set[str] = field(default_factory=set)
    confirms: dict[int, int] = field(default_factory=dict)
    """channels in confirm mode: how many messages are not confirmed"""
    has_probe: bool = False
    may_get: bool = False
    """from the queue that is always empty"""

    def see(self, said: Said) -> None:
        method = said.method
        if method.name in ("connection.close", "connection.close-ok"):
            # All is said: who closes the socket first means nothing.
            self.peer.is_gone = True
        if isinstance(method, ChannelOpenOk):
            self.channels.add(said.channel)
        elif isinstance(method, ChannelClose) or method.name == "channel.close-ok":
            self.channels.discard(said.channel)
            self.confirms.pop(said.channel, None)
        elif isinstance(method, QueueDeclareOk):
            self.queues.add(method.queue)
        elif isinstance(method, BasicAck | BasicNack) and said.channel in self.confirms:
            self.confirms[said.channel] = 0
        elif method.name == "confirm.select-ok":
            self.confirms.setdefault(said.channel, 0)


class Stage:
    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._names = Names()
        self._open: dict[int, Open] = {}
        self._used: set[tuple[str, str, str]] = set()

    def run(self, script: Script) -> Transcript:
        return [self.step(step) for step in script]

    def step(self, step: Step) -> dict[str, list[Told]]:
        came = self._do(step)
        seen: dict[str, list[Told]] = {}
        for on, said in came:
            seen.setdefault(f"{on}.{said.channel}", []).append(told(said, self._names))
        for on, connection in list(self._open.items()):
            for version in connection.peer.versions:
                seen.setdefault(f"{on}.0", []).append({"header": version.decode("latin-1")})
            connection.peer.versions.clear()
            if connection.peer.is_gone:
                seen.setdefault(f"{on}.0", []).append({"closed": True})
                connection.peer.close()
                del self._open[on]
        return {where: seen[where] for where in sorted(seen)}

    def close(self) -> None:
        """With all that the script has named."""
        for connection in self._open.values():
            if connection.is_bare:
                connection.peer.close()
            else:
                connection.peer.leave()
        self._open.clear()
        for vhost in {vhost for vhost, _, _ in self._used}:
            self._clean(vhost)

    def _clean(self, vhost: str) -> None:
        peer = Peer.logged_in(self._address, Login(vhost=vhost))
        for number, (_, kind, name) in enumerate(sorted(used for used in self._used if used[0] == vhost), 1):
            method = QueueDelete(queue=name) if kind == "queue" else ExchangeDelete(exchange=name)
            peer.open(number)
            peer.call(number, method)
        peer.leave()

    def _do(self, step: Step) -> list[tuple[int, Said]]:
        match step:
            case Connect():
                return self._connect(step)
            case Dial():
                self._open[step.on] = Open(Peer(self._address), is_bare=True)
                return []
            case Wait():
                return self._quiet([(on, said) for on in self._open for said in self._listen(on, step.ms / 1000)])
        connection = self._open.get(step.on)
        if connection is None:
            return []
        match step:
            case Drop():
                connection.peer.close()
                del self._open[step.on]
                return self._quiet([(on, said) for on in self._open for said in self._listen(on, DROPPED_S)])
            case Raw():
                connection.peer.raw(step.data.encode("latin-1"))
                return self._quiet([])
            case Say():
                return self._say(step, connection)

    def _connect(self, step: Connect) -> list[tuple[int, Said]]:
        if step.on in self._open:
            return []
        peer = Peer(self._address)
        self._open[step.on] = Open(peer, step.is_bare, step.vhost)
        came: list[Said] = []
        try:
            peer.log_in(step.login)
        except (Gone, Silent, Refused) as error:
            came = [*error.args[0], *peer.coming(BARE_S)]
        else:
            self._open[step.on].may_get = self._has_empty(step)
        return self._quiet([(step.on, said) for said in came])

    def _has_empty(self, step: Connect) -> bool:
        """It is made by the first connection that may, and stays."""
        if step.is_bare or (step.user, step.vhost) != ("guest", "/"):
            return False
        peer = self._open[step.on].peer
        peer.open(PROBE)
        peer.call(PROBE, QueueDeclare(queue=EMPTY, durable=True))
        self._open[step.on].has_probe = True
        return True

    def _say(self, step: Say, connection: Open) -> list[tuple[int, Said]]:
        step = self._resolved(step)
        method = method_of(step)
        self._note(step, connection.vhost)
        if step.method == "basic.publish" and step.channel in connection.confirms:
            connection.confirms[step.channel] += 1
        connection.peer.send(step.channel, method, properties_of(step), step.body.encode("latin-1"))
        came = []
        waits = method.replies and not getattr(method, "nowait", False) and not connection.is_bare
        if waits:
            came = list(self._until_answered(step.on, step.channel, method))
        elif step.channel and not connection.is_bare:
            came = [(step.on, said) for said in self._stored(step, connection)]
        return self._quiet(came)

    def _until_answered(self, on: int, channel: int, method: Method) -> Iterator[tuple[int, Said]]:
        """Not forever: what must not be answered is compared too."""
        connection = self._open[on]
        if channel and channel not in connection.channels and method.name != "channel.open":
            yield from ((on, said) for said in self._listen(on, BARE_S))
            return
        for said in connection.peer.coming(DEADLINE_S):
            connection.see(said)
            yield on, said
            is_end = isinstance(said.method, ChannelClose) and said.channel == channel
            if said.channel == channel and said.method.name in method.replies:
                return
            if is_end or isinstance(said.method, ConnectionClose):
                return

    def _resolved(self, step: Say) -> Say:
        def real(value: Any) -> Any:
            if isinstance(value, str):
                return self._names.real(value)
            if isinstance(value, Mapping):
                return {name: real(inner) for name, inner in value.items()}
            return [real(inner) for inner in value] if isinstance(value, list) else value

        return Say(step.method, real(step.fields), step.channel, step.on, real(step.properties), step.body)

    def _note(self, step: Say, vhost: str) -> None:
        for kind in ("queue", "exchange"):
            name = step.fields.get(kind)
            if step.method == f"{kind}.declare" and name and not name.startswith("amq."):
                self._used.add((vhost, kind, name))

    def _quiet(self, came: list[tuple[int, Said]]) -> list[tuple[int, Said]]:
        """All that comes until nothing more does."""
        quiet = 0
        for _ in range(_ROUNDS):
            more = [(on, said) for on in list(self._open) for said in self._round(on)]
            came += more
            quiet = 0 if more else quiet + 1
            if quiet == (1 if self._is_all_bare() else 2):
                break
        return came

    def _is_all_bare(self) -> bool:
        return all(connection.is_bare for connection in self._open.values())

    def _round(self, on: int) -> Iterator[Said]:
        connection = self._open[on]
        if connection.peer.is_gone:
            return
        if connection.is_bare:
            yield from self._listen(on, BARE_S)
            return
        yield from self._confirmed(on, connection)
        for queue in sorted(connection.queues):
            yield from self._asked_for(on, connection, queue)
        for channel in sorted(connection.channels):
            yield from self._flowed(on, connection, channel)
        yield from self._listen(on, 0)

    def _confirmed(self, on: int, connection: Open) -> Iterator[Said]:
        """Messages are confirmed when they are stored."""
        for channel in list(connection.confirms):
            while connection.confirms.get(channel) and not connection.peer.is_gone:
                for said in connection.peer.coming(DEADLINE_S):
                    connection.see(said)
                    yield said
                    if not connection.confirms.get(channel):
                        break
                else:
                    connection.confirms[channel] = 0

    def _asked_for(self, on: int, connection: Open, queue: str) -> Iterator[Said]:
        if not connection.has_probe:
            yield from self._probed(connection, ChannelOpen())
        yield from self._probed(connection, QueueDeclare(queue=queue, passive=True))
        if not connection.has_probe:
            connection.queues.discard(queue)

    def _probed(self, connection: Open, ask: Method) -> Iterator[Said]:
        """What came meanwhile; the answer is not told."""
        connection.peer.send(PROBE, ask)
        for said in connection.peer.coming(DEADLINE_S):
            if said.channel == PROBE:
                connection.has_probe = not isinstance(said.method, ChannelClose)
                return
            connection.see(said)
            yield said

    def _flowed(self, on: int, connection: Open, channel: int) -> Iterator[Said]:
        if channel not in connection.channels:
            return
        connection.peer.send(channel, ChannelFlow(active=True))
        for said in connection.peer.coming(DEADLINE_S):
            if said.channel == channel and isinstance(said.method, ChannelFlowOk):
                return
            connection.see(said)
            yield said
            if said.channel == channel and isinstance(said.method, ChannelClose):
                return

    def _stored(self, step: Say, connection: Open) -> Iterator[Said]:
        """What a channel asks next sees what it has published: here, that a queue is empty which nobody uses."""
        if not connection.may_get or step.method != "basic.publish" or step.channel not in connection.channels:
            yield from self._flowed(step.on, connection, step.channel)
            return
        connection.peer.send(step.channel, BasicGet(queue=EMPTY, no_ack=True))
        for said in connection.peer.coming(DEADLINE_S):
            if said.channel == step.channel and isinstance(said.method, BasicGetEmpty):
                return
            connection.see(said)
            yield said
            if isinstance(said.method, ChannelClose) and said.channel == step.channel:
                return

    def _listen(self, on: int, seconds: float) -> Iterator[Said]:
        connection = self._open[on]
        for said in connection.peer.coming(seconds):
            connection.see(said)
            yield said
