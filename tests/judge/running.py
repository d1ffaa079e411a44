"""A program at work: its bytes go to a true broker, cut and mixed as it says, and the reference is asked whether what
came of it can be."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count, pairwise
from pathlib import Path
from random import Random
from urllib.parse import quote

from argon2 import PasswordHasher
from tests.judge import layout
from tests.judge.doors import PASSWORD, Held, Socket
from tests.judge.http_door import HttpConnection
from tests.judge.mqtt_door import MqttConnection
from tests.judge.orders import Attempt, World, found_order, values_of
from tests.judge.reference import Group, Reference
from tests.judge.requests import Door, Program, Settle, Turn, shown
from tests.judge.seen import Place, Seen, Space, adopt
from tests.judge.words import named, unnamed
from tests.support.http_client import Answer
from tests.support.http_server import RunningServer, running_server

_runs = count(1)
AUTO = ("x/new", "x/new/sub", "x/other")
"""queues that programs may make by publishing to them"""


class Unexplained(AssertionError):
    """No order of requests gives what the broker did."""


@contextmanager
def judged_server(place: Path, auto_create: bool) -> Iterator[RunningServer]:
    cheap = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)
    users = [
        {
            "name": each.name,
            "password_hash": cheap,
            "roles": list(each.roles),
            "namespace": each.namespace,
            "acl": [] if each.roles else _rules(each),
        }
        for each in layout.PRINCIPALS
    ]
    with running_server(
        place,
        auth={"users": users},
        broker={"auto_create": auto_create},
        mqtt={"sys_interval": "none"},
    ) as server:
        server.declare(layout.FENCE)
        yield server


def _rules(principal: layout.Principal) -> list[dict[str, str]]:
    allowed = (("publish", principal.publish), ("consume", principal.consume), ("subscribe", principal.subscribe))
    return [
        {"effect": "allow", "action": action, "pattern": pattern}
        for action, patterns in allowed
        for pattern in patterns
    ]


def judge(server: RunningServer, program: Program) -> None:
    """Unexplained, with the program, if the true broker did what the reference would not."""
    run = _Run(server, program)
    try:
        run.begin()
        for number, turn in enumerate(program.turns):
            run.turn(number, turn)
    finally:
        run.close()


class _Run:
    def __init__(self, server: RunningServer, program: Program) -> None:
        self._server, self._program = server, program
        self._prefix = f"x{next(_runs)}"
        self._world = _world(program)
        self._root = HttpConnection(server, Door("http"), "root", self._prefix)
        self._connections: list[Socket] = []
        self._opened = count(1)
        self._held: list[Held] = []
        self._senders: dict[bytes, str] = {}

    def begin(self) -> None:
        made = []
        for namespace in self._world:
            made += [self._declared(facts, namespace) for facts in layout.QUEUES]
            made += [
                self._root.request("POST", self._path(queue, "receive", namespace), {"group": group, "max": 1})
                for queue, group in layout.GROUPS
            ]
        self._root.write(b"".join(made))
        for answer in self._root.answers_of(len(made)):
            assert answer.status in (200, 201), answer
        self._connections = [self._open(door) for door in self._program.doors]

    def _declared(self, facts: layout.QueueFacts, namespace: str) -> bytes:
        limits: dict[str, object] = {"max_message_size": facts.max_bytes}
        if facts.max_depth is not None:
            limits["max_queue_depth"] = facts.max_depth
        body = {
            "name": named(facts.name, self._prefix),
            "partitions": facts.partitions,
            "topics": [named(topic, self._prefix) for topic in facts.topics],
            "limits": limits,
            "retry_policy": {"max_retries": facts.max_retries},
        }
        return self._root.request("POST", f"queues?namespace={namespace}", body)

    def _open(self, door: Door) -> Socket:
        kind = HttpConnection if door.kind == "http" else MqttConnection
        return kind(self._server, door, f"{self._prefix}c{next(self._opened)}", self._prefix)

    def _path(self, queue: str, what: str, namespace: str) -> str:
        quoted = quote(named(queue, self._prefix), safe="")
        return f"queues/{quoted}/{what}{'&' if '?' in what else '?'}namespace={namespace}"

    def close(self) -> None:
        for connection in (*self._connections, self._root):
            connection.close()

    # A turn

    def turn(self, number: int, turn: Turn) -> None:
        attempts, parts = self._encoded(turn)
        if not attempts:
            return
        order = self._send(turn, parts)
        talking = [self._connections[place] for place in parts]
        for connection in talking:
            connection.finish()
        self._fence()
        for connection in self._connections:
            connection.drain()
        attempts = [attempt._replace(got=tuple(attempt.connection.got.get(attempt.number, ()))) for attempt in attempts]
        by_number = {attempt.number: attempt for attempt in attempts}
        seen = self._seen()
        old = {
            name: {each: len(queue.rows) for each, queue in space.queues.items()} for name, space in self._world.items()
        }
        found, complaint = found_order(self._world, [by_number[each] for each in order], seen)
        if found is None:
            raise Unexplained(f"turn {number}: {complaint}\njudge(server, {shown(self._program)})")
        if len(parts) > 1:
            for name, reference in found.items():
                adopt(reference, seen.spaces[name], old[name])
        self._go_on(found, attempts)

    def _fence(self) -> None:
        """What was taken in is committed, of those too whom nobody answers."""
        self._root.write(self._root.request("POST", f"queues/{layout.FENCE}/messages", {"text": "fence"}))
        [answer] = self._root.answers_of(1)
        assert answer.status == 200, answer

    def _encoded(self, turn: Turn) -> tuple[list[Attempt], dict[int, list[tuple[int | None, bytes]]]]:
        """Requests, and the packets of each connection with the numbers of the requests in them."""
        attempts: list[Attempt] = []
        parts: dict[int, list[tuple[int | None, bytes]]] = {}
        for number, (place, asked) in enumerate(turn.requests):
            place %= len(self._connections)
            connection = self._connections[place]
            held: tuple[Held, ...] = ()
            if isinstance(asked, Settle):
                held = (self._held[asked.pick % len(self._held)],) if self._held else ()
            if (request := connection.fitting(asked)) is None or (isinstance(asked, Settle) and not held):
                continue
            self._senders |= dict.fromkeys(values_of(request), connection.name)
            attempts.append(Attempt(number, connection, connection.name, connection.as_stored(request), held))
            if place not in parts:
                parts[place] = [(None, connection.releases())]
            parts[place].append((number, connection.encode(number, request, held[0] if held else None)))
        for place, mine in parts.items():
            mine.append((None, self._connections[place].fence()))
        return attempts, parts

    def _send(self, turn: Turn, parts: dict[int, list[tuple[int | None, bytes]]]) -> list[int]:
        """The numbers of the requests in the order in which their last bytes went out."""
        random, order = Random(turn.seed), list[int]()
        pieces = {place: _cut(turn.split, [data for _, data in mine], random) for place, mine in parts.items()}
        ends = {place: _ends(mine) for place, mine in parts.items()}
        written = dict.fromkeys(parts, 0)
        line = [place for place, mine in pieces.items() for _ in mine]
        random.shuffle(line)
        while line:
            several = len(line) if turn.split == "burst" else random.randint(1, len(line)) if turn.split == "any" else 1
            together, line = line[:several], line[several:]
            if several > 1:
                with self._server.held():
                    for place in together:
                        written[place] += self._write(place, pieces[place])
                        order += _passed(ends[place], written[place])
            else:
                [place] = together
                written[place] += self._write(place, pieces[place])
                order += _passed(ends[place], written[place])
            if turn.split != "bytes":
                self._server.look()
        return order

    def _write(self, place: int, pieces: list[bytes]) -> int:
        piece = pieces.pop(0)
        self._connections[place].write(piece)
        return len(piece)

    def _go_on(self, world: World, attempts: Sequence[Attempt]) -> None:
        self._world = world
        for reference in world.values():
            reference.sent.clear()
        self._held += [each for attempt in attempts for each in attempt.got]
        for place, connection in enumerate(self._connections):
            connection.answers.clear()
            connection.got.clear()
            connection.delivered.clear()
            if connection.is_ended:
                connection.close()
                world[layout.NAMESPACES[connection.door.principal]].ended(connection.name)
                self._connections[place] = self._open(connection.door)

    # What there is

    def _seen(self) -> Seen:
        spaces = {namespace: self._space(namespace, reference) for namespace, reference in self._world.items()}
        delivered = {each.name: tuple(each.delivered) for each in self._connections if not each.is_ended}
        return Seen(spaces, delivered, self._senders)

    def _space(self, namespace: str, reference: Reference) -> Space:
        letters = [layout.DEAD + queue for queue in layout.RECEIVED]
        names = [*dict.fromkeys([*reference.queues, *AUTO, *letters])]
        browse = "messages?limit=1000&encoding=base64"
        kept, *answers = self._root.ask(
            f"retained?limit=1000&filter={self._prefix}/%23&namespace={namespace}",
            *(self._path(name, browse, namespace) for name in names),
            *(self._path(name, "stats", namespace) for name in names),
        )
        browsed, counted = answers[: len(names)], answers[len(names) :]
        rows = {name: _places(answer, self._prefix) for name, answer in zip(names, browsed, strict=True)}
        published = {
            name: answer.json["published"]
            for name, answer in zip(names, counted, strict=True)
            if answer.status == 200 and not name.startswith(layout.DEAD)
        }
        retained = {unnamed(each["topic"], self._prefix): each["text"].encode() for each in kept.json["items"]}
        return Space(rows, published, retained)


def _world(program: Program) -> World:
    """The namespaces of those who take part."""
    names = dict.fromkeys(["default", *(layout.NAMESPACES[door.principal] for door in program.doors)])
    world = {name: Reference(layout.PRINCIPALS, layout.QUEUES, program.auto_create) for name in names}
    for reference in world.values():
        for queue, group in layout.GROUPS:
            reference.queues[queue].groups[group] = Group(0)
    return world


def _places(answer: Answer, prefix: str) -> list[Place]:
    if answer.status == 404:
        return []
    assert answer.status == 200, answer
    found = sorted(answer.json["messages"], key=lambda each: (each["partition"], each["offset"]))
    return [
        Place(
            each["partition"],
            base64.b64decode(each.get("base64", "")),
            _key(each),
            None if each.get("topic") is None else unnamed(each["topic"], prefix),
            tuple((name, value) for name, value in each.get("headers", ())),
        )
        for each in found
    ]


def _key(message: dict[str, str]) -> str | None:
    if "key_base64" in message:
        return base64.b64decode(message["key_base64"]).decode()
    return message.get("key")


def _cut(split: str, packets: Sequence[bytes], random: Random) -> list[bytes]:
    data = b"".join(packets)
    if split in ("whole", "burst"):
        return [data]
    if split == "packets":
        return [packet for packet in packets if packet]
    if split == "bytes":
        return [data[at : at + 1] for at in range(len(data))]
    places = sorted({0, len(data), *(random.randint(1, len(data) - 1) for _ in range(random.randint(0, 5)))})
    return [data[start:end] for start, end in pairwise(places)]


def _ends(parts: Sequence[tuple[int | None, bytes]]) -> list[tuple[int, int]]:
    """Where each request ends, and its number."""
    found, at = list[tuple[int, int]](), 0
    for number, data in parts:
        at += len(data)
        if number is not None:
            found.append((at, number))
    return found


def _passed(ends: list[tuple[int, int]], written: int) -> list[int]:
    found = []
    while ends and ends[0][0] <= written:
        found.append(ends.pop(0)[1])
    return found
