"""Random programs."""

from __future__ import annotations

from itertools import count

from hypothesis import strategies as st
from tests.judge.layout import RECEIVED
from tests.judge.requests import (
    Door,
    Malformed,
    Message,
    Producer,
    Program,
    Publish,
    PublishMany,
    Put,
    Receive,
    Request,
    Settle,
    Subscribe,
    Transaction,
    Turn,
    Unsubscribe,
)

SPLITS = ("whole", "burst", "any", "packets", "bytes")
NOBODYS = "x/nobody"
"""a topic that no queue is bound to"""
TOPICS = (
    "$queue/x/open",
    "$queue/x/open/routed",
    "$queue/x/open/deep/er",
    "$queue/x/open/too",
    "$queue/x/shut",
    "$queue/x/full",
    "$queue/x/small",
    "$queue/x/new",
    "$queue/x/new/sub",
    "$queue/x//bad",
    "$SYS/x",
    "x/open/a",
    "x/open/deep",
    "x/open/full/small",
    "x/shut/a",
    "x/full",
    "x/small/b",
    NOBODYS,
)
QUEUES = ("x/open", "x/shut", "x/full", "x/small", "x/other")
FILTERS = ("x/#", "x/open/#", "x/+/a", "x/shut/a", "x/+")
WARM = tuple(
    Put(queue, (Message(b""),), partition) for queue, partition in (*(("x/open", n) for n in range(3)), ("x/shut", 0))
)
"""a partition is made by its first message, which takes another way than those that follow"""
LARGE = 80
"""bytes that the queue x/small does not take"""

doors = st.builds(
    Door, st.sampled_from(("mqtt5", "mqtt3", "http", "mqtt5", "ws5")), st.sampled_from(("ann", "bob", "root"))
)
_keys = st.sampled_from((None, "k", "other"))
_headers = st.sampled_from(((), (("a", "b"),), (("a", "1"), ("a", "2"))))
_sizes = st.sampled_from((b"", b"", b"l"))
messages = st.builds(Message, _sizes, st.none(), st.just(())) | st.builds(Message, _sizes, _keys, _headers)
"""the value says whether it is to be large: a number is put there later"""
_NO = st.just(False)
# Every field is given: what is left out would be drawn by its type.
_producers = st.builds(Producer, st.sampled_from("pq"), st.integers(0, 1), st.integers(0, 2), _NO)
_once = st.builds(Producer, st.sampled_from("yz"), st.just(0), st.just(0), st.just(True))
_either = st.none() | _producers | _once
_partitions = st.sampled_from((None, None, None, 0, 1, 3))
_qos = st.sampled_from((0, 1, 1, 2))

_topics = st.sampled_from(TOPICS)
# Mostly what is taken the same way: one queue by its name and below it, or no queue at all.
_habits = st.sampled_from(("$queue/x/open", "$queue/x/open/routed")) | st.just(NOBODYS) | _topics
_retain = st.sampled_from((False, False, False, True))
plain = st.builds(Publish, _topics, messages, _qos, _retain, st.none(), st.none(), _NO)
directed = st.builds(Publish, _topics, messages, st.sampled_from((1, 2)), _NO, _partitions, st.none() | _producers, _NO)
puts = st.builds(
    Put,
    st.sampled_from(QUEUES),
    st.lists(messages, min_size=1, max_size=3).map(tuple),
    _partitions,
    _either,
    st.sampled_from(("json", "json", "raw")),
)
many = st.builds(PublishMany, st.lists(st.tuples(_topics, messages), min_size=1, max_size=3).map(tuple), _qos, _retain)
settles = st.builds(Settle, st.sampled_from(("ack", "ack", "nack", "reject")), st.integers(0, 5))
subscribes = st.builds(Subscribe, st.sampled_from(FILTERS), st.integers(0, 2))
unsubscribes = st.builds(Unsubscribe, st.sampled_from(FILTERS))
receives = st.builds(Receive, st.sampled_from(RECEIVED), st.sampled_from(("g", "h")), st.integers(1, 6))

publishing = st.one_of(plain, plain, plain, directed, puts, many)
anything = st.one_of(publishing, publishing, publishing, settles, subscribes, unsubscribes)
seeds = st.integers(0, 1000)


@st.composite
def parallel(draw: st.DrawFn, connections: int) -> Turn:
    """Requests of any connections at once."""
    places = st.integers(0, connections - 1)
    requests = draw(st.lists(st.tuples(places, anything), min_size=1, max_size=12))
    if draw(st.integers(0, 9)) == 0:
        requests.append((draw(places), Malformed()))
    return Turn(tuple(_repeated(requests, draw)), draw(st.sampled_from(SPLITS)), draw(seeds))


@st.composite
def dense(draw: st.DrawFn, connections: int) -> Turn:
    """Many messages of one connection, alike but for their topics."""
    place, qos = draw(st.integers(0, connections - 1)), draw(_qos)
    topics = draw(st.lists(st.sampled_from(TOPICS), min_size=1, max_size=4))
    chosen = draw(st.lists(st.sampled_from(topics), min_size=4, max_size=40))
    requests = tuple((place, Publish(topic, Message(b""), qos)) for topic in chosen)
    return Turn(requests, draw(st.sampled_from(("whole", "burst", "any"))), draw(seeds))


@st.composite
def sparse(draw: st.DrawFn, connections: int) -> Turn:
    """A message of each connection."""
    return Turn(
        tuple((place, draw(publishing)) for place in range(connections)), draw(st.sampled_from(SPLITS)), draw(seeds)
    )


@st.composite
def consuming(draw: st.DrawFn, connection: int) -> Turn:
    """One after the other: which messages a receive gives is the broker's choice."""
    some = st.one_of(receives, receives, settles, puts)
    requests = draw(st.lists(some, min_size=1, max_size=4))
    return Turn(tuple((connection, each) for each in requests), draw(st.sampled_from(SPLITS)), draw(seeds))


@st.composite
def crowds(draw: st.DrawFn) -> Program:
    """Clients that each send the same few things again and again, which is what brokers have short ways for."""
    versions, who = st.sampled_from(("mqtt5", "mqtt5", "mqtt3")), st.sampled_from(("ann", "ann", "bob", "eve"))
    talking = draw(st.lists(st.builds(Door, versions, who), min_size=1, max_size=6))
    habits = [
        (draw(st.lists(_habits, min_size=1, max_size=draw(st.integers(1, 3)))), draw(st.sampled_from((0, 1, 1))))
        for _ in talking
    ]
    first: list[tuple[int, Request]] = [(len(talking) + 1, each) for each in WARM]
    if draw(st.booleans()):
        first.append((len(talking), Subscribe("x/#", draw(st.integers(0, 2)))))
    turns = [Turn(tuple(first))]
    for _ in range(draw(st.integers(1, 4))):
        requests = [
            (place, Publish(draw(st.sampled_from(topics)), Message(b""), qos))
            for place, (topics, qos) in enumerate(habits)
            for _ in range(draw(st.integers(0, 4)))
        ]
        turns.append(Turn(tuple(requests), draw(st.sampled_from(SPLITS)), draw(seeds)))
    everybody = (*talking, Door(draw(versions), draw(who)), Door("http", draw(st.sampled_from(("root", "eve")))))
    return numbered(Program(everybody, tuple(turns), draw(st.sampled_from((True, True, False)))))


def programs() -> st.SearchStrategy[Program]:
    return mixtures() | crowds()


@st.composite
def mixtures(draw: st.DrawFn) -> Program:
    """Of everything, through every door."""
    talking = draw(st.lists(doors, min_size=1, max_size=4))
    if draw(st.integers(0, 5)) == 0:
        talking += draw(st.lists(doors, min_size=8, max_size=8))
    first_http = len(talking)
    talking.append(Door("http", draw(st.sampled_from(("root", "ann", "bob")))))
    size = len(talking)
    turn = st.one_of(parallel(size), parallel(size), dense(size), sparse(size), consuming(first_http))
    turns = draw(st.lists(turn, min_size=1, max_size=5))
    return numbered(Program(tuple(talking), tuple(map(settled, turns)), draw(st.sampled_from((True, True, False)))))


_batches = st.builds(
    Put,
    st.sampled_from(QUEUES),
    st.lists(messages, min_size=1, max_size=3).map(tuple),
    st.none(),
    st.none(),
    st.just("json"),
)
transactions = st.builds(
    Transaction, st.lists(_batches, max_size=3).map(tuple), st.lists(st.integers(0, 5), max_size=2).map(tuple)
)


@st.composite
def embedded_programs(draw: st.DrawFn) -> Program:
    """For threads that call."""
    size = draw(st.integers(1, 4))
    calls = st.one_of(plain.map(lambda one: one._replace(retain=False)), puts, transactions, transactions, settles)
    several = st.lists(st.tuples(st.integers(0, size - 1), calls), min_size=1, max_size=10).map(tuple)
    together = st.builds(Turn, several, st.sampled_from(("whole", "packets")), st.just(0))
    alone = st.builds(lambda one: Turn(((0, one),)), receives.filter(lambda one: one.queue != "x/other"))
    turns = draw(st.lists(st.one_of(together, together, alone), min_size=1, max_size=6))
    return numbered(Program((Door("embedded"),) * size, tuple(turns), draw(st.booleans())))


def _repeated(requests: list[tuple[int, Request]], draw: st.DrawFn) -> list[tuple[int, Request]]:
    """Some packets of QoS 2 once more."""
    found: list[tuple[int, Request]] = []
    for place, request in requests:
        found.append((place, request))
        if isinstance(request, Publish) and request.qos == 2 and draw(st.integers(0, 3)) == 0:
            found.append((place, request._replace(is_again=True)))
    return found


def settled(turn: Turn) -> Turn:
    """Without what nobody can foresee: whether a subscriber finds a message retained that is published meanwhile, or
    gets it as it is published, or both."""
    if not any(isinstance(request, Subscribe) for _, request in turn.requests):
        return turn
    calm = tuple(
        (place, request._replace(retain=False) if isinstance(request, Publish | PublishMany) else request)
        for place, request in turn.requests
    )
    return turn._replace(requests=calm)


def numbered(program: Program) -> Program:
    """Each message has a value of its own."""
    numbers = count(1)

    def value(message: Message, request: Request) -> Message:
        if isinstance(request, Publish) and request.retain and request.topic == NOBODYS and next(numbers) % 2 == 0:
            return message  # empty: nothing is retained any more
        size = LARGE if message.value else 0
        return message._replace(value=(b"%d" % next(numbers)).ljust(size, b"."))

    turns = []
    for turn in program.turns:
        requests: list[tuple[int, Request]] = []
        for place, request in turn.requests:
            if isinstance(request, Publish) and request.is_again:
                first = requests[-1][1]
                assert isinstance(first, Publish)
                request = first._replace(is_again=True)
            elif isinstance(request, Publish):
                request = request._replace(message=value(request.message, request))
            elif isinstance(request, Put):
                sent = request.messages[:1] if request.form == "raw" else request.messages
                request = request._replace(messages=tuple(value(each, request) for each in sent))
                if request.form == "raw" and request.producer is not None and not request.producer.is_key:
                    request = request._replace(producer=None)
            elif isinstance(request, Transaction):
                several = tuple(
                    put._replace(messages=tuple(value(each, put) for each in put.messages)) for put in request.puts
                )
                request = request._replace(puts=several)
            elif isinstance(request, PublishMany):
                request = request._replace(
                    messages=tuple((topic, value(each, request)) for topic, each in request.messages)
                )
            requests.append((place, without_both(request)))
        turns.append(turn._replace(requests=tuple(requests)))
    return program._replace(turns=tuple(turns))


def without_both(request: Request) -> Request:
    """A message has a key or a partition."""
    if isinstance(request, Publish) and request.partition is not None:
        return request._replace(message=request.message._replace(key=None))
    if isinstance(request, Put) and request.partition is not None:
        return request._replace(messages=tuple(each._replace(key=None) for each in request.messages))
    return request
