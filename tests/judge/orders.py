"""The search for an order of the requests of a turn in which the reference gives what was seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.judge import reference as said
from tests.judge.doors import Connection, Held
from tests.judge.layout import NAMESPACES
from tests.judge.reference import Reference, Refused
from tests.judge.requests import (
    Malformed,
    Publish,
    PublishMany,
    Put,
    Receive,
    Request,
    Settle,
    Subscribe,
    Transaction,
    Unsubscribe,
)
from tests.judge.seen import Seen, sent_differ, space_differs

MALFORMED = "malformed"
# Of a turn that fits no order; one that does mostly needs as many as it has requests.
_MOST_STEPS = 20_000

World = dict[str, Reference]
"""by namespace"""


class Attempt(NamedTuple):
    """A request on its way through a connection. `publisher` is that connection's name, a new one when it was opened
    anew."""

    number: int
    connection: Connection
    publisher: str
    request: Request
    held: tuple[Held, ...] = ()
    got: tuple[Held, ...] = ()


Lines = Mapping[str, Sequence[Attempt]]
"""by publisher"""


class State(NamedTuple):
    """Behind some of the requests."""

    world: World
    places: dict[str, int]
    """how far each line is"""
    outcomes: dict[str, str]
    """the last of each line"""
    codes: tuple[str, ...] = ()
    ended: frozenset[str] = frozenset()

    def key(self) -> object:
        """States with the same one go on alike."""
        return str((self.places, sorted(self.codes), sorted(self.ended), [each.sum() for each in self.world.values()]))


def found_order(before: World, attempts: Sequence[Attempt], seen: Seen) -> tuple[World | None, str]:
    """The world behind the turn, or why there is none. `attempts` stand in the order in which they were sent: that is
    tried first, then every other one that keeps the order of each connection."""
    lines: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        lines.setdefault(attempt.publisher, []).append(attempt)
    search, state = _Search(seen, lines), State(before, dict.fromkeys(lines, 0), {})
    order = [attempt.publisher for attempt in attempts]
    found = search.walk(state, order) or search.any_order(state)
    return (None if found is None else found.world), search.complaint + search.given_up


class _Search:
    def __init__(self, seen: Seen, lines: Lines) -> None:
        self._seen, self._lines, self._left = seen, lines, _MOST_STEPS
        self._tried: set[object] = set()
        self._values = {
            place.value for space in seen.spaces.values() for places in space.rows.values() for place in places
        }
        self.complaint = ""

    @property
    def given_up(self) -> str:
        return "" if self._left > 0 else " (not every order was tried)"

    def walk(self, state: State | None, order: Sequence[str]) -> State | None:
        """In one order; what follows the end of a connection is passed over."""
        for name in order:
            if state is None:
                return None
            state = _passed(state, name) if name in state.ended else self._taken(state, name)
        return state if state is not None and self._is_all_as_seen(state) else None

    def any_order(self, state: State) -> State | None:
        key = state.key()
        if key in self._tried or self._left <= 0 or not self._may_be_sent(state):
            return None
        self._tried.add(key)
        names = [name for name, line in self._lines.items() if state.places[name] < len(line)]
        if not names:
            return state if self._is_all_as_seen(state) else None
        for name in names:
            self._left -= 1
            for following in self._followings(state, name):
                if (found := self.any_order(following)) is not None:
                    return found
        return None

    def _followings(self, state: State, name: str) -> list[State]:
        """What can come of the next request of a line: behind the end of its connection it may not have been read."""
        is_stored = self._is_stored(self._lines[name][state.places[name]])
        found = [_passed(state, name)] if name in state.ended and not is_stored else []
        taken = self._taken(state, name)
        return [*found, taken] if taken is not None else found

    def _taken(self, state: State, name: str) -> State | None:
        """None if it cannot have been next."""
        attempt = self._lines[name][state.places[name]]
        world = {space: reference.copy() for space, reference in state.world.items()}
        mine = world[NAMESPACES[attempt.connection.door.principal]]
        code = outcome(mine, attempt, state.outcomes.get(name))
        is_over = _ends(attempt, code)
        if is_over:
            mine.ended(name)
        if name not in state.ended and not self._is_as_seen(attempt, code, is_over):
            return None
        if self._is_stored(attempt) != _has_stored(mine, attempt):
            self._complain(f"{name} {attempt.request} is {code}, and the queues say otherwise")
            return None
        places, outcomes = {**state.places, name: state.places[name] + 1}, {**state.outcomes, name: code}
        ended = state.ended | {name} if is_over else state.ended
        return State(world, places, outcomes, (*state.codes, f"{attempt.number} {code}"), ended)

    def _is_as_seen(self, attempt: Attempt, code: str, is_over: bool) -> bool:
        connection = attempt.connection
        if is_over:
            return connection.is_ended or self._complain(f"{attempt.request} is {code}, and its connection goes on")
        wires = [connection.told(each, attempt.request) for each in code.split(said.EITHER)]
        answer = connection.answers.get(attempt.number)
        if None in wires or (answer is None and connection.is_ended) or answer in wires:
            return True
        return self._complain(f"{attempt.publisher} {attempt.request} was answered {answer}, and it is {code}: {wires}")

    def _may_be_sent(self, state: State) -> bool:
        """Nobody is sent so far what did not come."""
        sent = {name: some for reference in state.world.values() for name, some in reference.sent.items()}
        return all(Counter(sent.get(name, ())) <= Counter(came) for name, came in self._seen.delivered.items())

    def _is_stored(self, attempt: Attempt) -> bool:
        return any(value in self._values for value in values_of(attempt.request))

    def _complain(self, text: str) -> bool:
        """The first one is about the order in which the requests were sent."""
        self.complaint = self.complaint or text
        return False

    def _is_all_as_seen(self, state: State) -> bool:
        for name, line in self._lines.items():
            if line[0].connection.is_ended and name not in state.ended:
                return self._complain(f"{name} was ended, and nothing it sent does that")
        for space, reference in state.world.items():
            if difference := space_differs(reference, self._seen.spaces[space]):
                return self._complain(f"{space}: {difference}")
        sent = {name: some for reference in state.world.values() for name, some in reference.sent.items()}
        for name, delivered in self._seen.delivered.items():
            if difference := sent_differ(sent.get(name, ()), delivered, self._seen.senders):
                return self._complain(f"to {name}: {difference}")
        return True


def _passed(state: State, name: str) -> State:
    return state._replace(places={**state.places, name: state.places[name] + 1})


def outcome(reference: Reference, attempt: Attempt, before: str | None) -> str:
    """What the request is answered; `before` is what the one before it on its connection was."""
    who, name, request = attempt.connection.door.principal, attempt.publisher, attempt.request
    try:
        match request:
            case Publish():
                if not (request.is_again and before == said.OK):
                    one = [(request.topic, request.message)]
                    directed = request.partition, request.producer
                    reference.publish(who, name, one, request.qos, request.retain, *directed)
            case PublishMany():
                reference.publish(who, name, request.messages, request.qos, request.retain)
            case Put():
                directed = request.partition, request.producer
                return f"{said.OK} {reference.put(who, name, request.queue, request.messages, *directed)}"
            case Subscribe():
                has_headers = attempt.connection.has_headers
                reference.subscribe(who, name, request.filter, request.qos, has_headers=has_headers)
            case Unsubscribe():
                return said.OK if reference.unsubscribe(name, request.filter) else said.NO_SUBSCRIPTION
            case Receive():
                handed_out = [(each.value, each.delivery) for each in attempt.got]
                return reference.receive(who, request.queue, request.group, request.most, handed_out) or said.OK
            case Settle():
                [held] = attempt.held
                delivery = held.delivery if attempt.connection.settles_deliveries else None
                return reference.settle(who, request.verb, held.queue, held.group, held.value, delivery)
            case Transaction():
                acks = [(each.queue, each.group, each.value, each.delivery) for each in attempt.held]
                reference.transact(who, name, [(put.queue, put.messages) for put in request.puts], acks)
            case Malformed():
                return MALFORMED
    except Refused as refused:
        return refused.code
    return said.OK


def values_of(request: Request) -> list[bytes]:
    """Of the messages in it."""
    match request:
        case Publish():
            return [request.message.value]
        case PublishMany():
            return [message.value for _, message in request.messages]
        case Put():
            return [message.value for message in request.messages]
        case Transaction():
            return [message.value for put in request.puts for message in put.messages]
    return []


def _has_stored(reference: Reference, attempt: Attempt) -> bool:
    values = values_of(attempt.request)
    return any(row.value in values for queue in reference.queues.values() for row in queue.rows)


def _ends(attempt: Attempt, code: str) -> bool:
    is_publish = isinstance(attempt.request, Publish | Settle)
    return code == MALFORMED or (is_publish and code != said.OK and attempt.connection.ends_on_refusal)
