"""Exchanges and bindings of one namespace: which queues a message gets to. Rules without I/O.

`amq.topic` is the space of ordinary topics: what queues are bound to it with is their `topics`, which `Bindings` has.
Here are only those of its bindings that no filter of topics can say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from penstock.core.errors import (
    DefaultExchange,
    ExchangeDiffers,
    ExchangeInternal,
    ExchangeLimit,
    ExchangeReserved,
    InvalidArgument,
    NoSuchExchange,
)
from penstock.queues.bindings import Bindings
from penstock.queues.exchange_headers import DELAY, NO_HEADERS, Headers, Value
from penstock.queues.exchange_topics import DEFAULT_EXCHANGE, TOPIC_EXCHANGE, swapped, topic_of_key
from penstock.queues.exchange_types import DELAYED_TYPE, Binding, Destination, Matcher, matcher_of
from penstock.queues.names import RESERVED_PREFIX, check_exchange_name

MAX_EXCHANGES, MAX_BINDINGS = 10_000, 1_000_000
MAX_KEY_BYTES = 255
MAX_ARGUMENTS, MAX_ARGUMENT_BYTES = 100, 16 << 10
PREDECLARED: Final = {
    DEFAULT_EXCHANGE: "direct",
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    TOPIC_EXCHANGE: "topic",
    "amq.headers": "headers",
    "amq.match": "headers",
}
Key = TypeVar("Key")
_ALTERNATE: Final = "alternate-exchange"
# Of 512 bytes of a key and 1 KiB of headers at most: some 30 MB where every message has its own.
_CACHED_ROUTES, _CACHED_BY_HEADERS = 50_000, 10_000
_CACHED_KEY_BYTES, _CACHED_HEADER_BYTES = 512, 1024


@dataclass(frozen=True, slots=True)
class Exchange:
    """What was declared. Two declarations are the same if all of it is."""

    name: str
    type: str
    is_durable: bool = True
    auto_delete: bool = False
    """it goes with the last of its bindings"""
    internal: bool = False
    """nobody publishes to it: messages come by bindings of other exchanges"""
    alternate: str | None = None
    """the exchange that gets what none of the bindings takes"""
    arguments: Mapping[str, Value] = field(default_factory=dict)

    @property
    def is_predeclared(self) -> bool:
        return self.name in PREDECLARED


class Routed(NamedTuple):
    queues: tuple[str, ...]
    """each of them once"""
    is_alternate: bool
    """an alternate exchange was asked on the way"""
    topic: bytes | None
    """the message came through `amq.topic`: as that topic it is for those who subscribe as well"""


class Removal(NamedTuple):
    """What goes together with something."""

    exchanges: list[Exchange]
    bindings: list[Binding]


class Exchanges:
    """One thread at a time. Checks before it changes anything."""

    def __init__(self, namespace: str, topics: Bindings, seed: int = 0) -> None:
        """`topics` are the bindings of queues in the same namespace, whose version counts for both."""
        self._namespace, self._topics, self._seed = namespace, topics, seed
        self._all: dict[str, Exchange] = {}
        self._matchers: dict[str, Matcher] = {}
        self._bindings: dict[int, Binding] = {}
        self._identities: dict[object, Binding] = {}
        self._of: dict[str, dict[int, Binding]] = {}
        """by source"""
        self._to: dict[Destination, dict[int, Binding]] = {}
        self._onward: dict[str, dict[int, Binding]] = {}
        """by source, those to other exchanges, of which there are few"""
        self._next_number = 1
        self._routes: dict[tuple[str, bytes], Routed] = {}
        self._by_headers: dict[tuple[str, bytes, bytes, object], Routed] = {}
        self._reading: dict[str, bool] = {}
        """exchanges from which a message may get to one that looks at headers"""
        self._version = -1
        for name, type in PREDECLARED.items():
            self._put(Exchange(name, type))

    @property
    def version(self) -> int:
        """Changes whenever a route may have: with exchanges, bindings, queues and their topics."""
        return self._topics.version

    # Exchanges

    def find(self, name: str) -> Exchange:
        """NoSuchExchange."""
        if (found := self._all.get(name)) is None:
            raise NoSuchExchange(name)
        return found

    def __contains__(self, name: str) -> bool:
        return name in self._all

    def __iter__(self) -> Iterator[Exchange]:
        return iter(list(self._all.values()))

    def check_declare(self, wanted: Exchange) -> bool:
        """Whether it would be a new one. ExchangeDiffers from one that is there, ExchangeReserved, ExchangeLimit,
        InvalidArgument for what no exchange can be."""
        if wanted.name == DEFAULT_EXCHANGE:
            raise ExchangeReserved(wanted.name, "is the default one, which is always there: choose a name")
        if (found := self._all.get(wanted.name)) is not None:
            _refuse_difference(found, wanted)
            return False
        check_exchange_name(wanted.name)
        if wanted.name.startswith(RESERVED_PREFIX):
            raise ExchangeReserved(
                wanted.name, f"begins with {RESERVED_PREFIX}, which is reserved: choose another name"
            )
        if wanted.alternate is not None:
            check_exchange_name(wanted.alternate)
        if _ALTERNATE in wanted.arguments:
            raise InvalidArgument(f"{_ALTERNATE} is given twice: leave it out of the arguments")
        check_arguments(wanted.arguments)
        matcher_of(wanted.type, wanted.arguments)
        if len(self._all) - len(PREDECLARED) >= MAX_EXCHANGES:
            raise ExchangeLimit(self._namespace, "exchanges", MAX_EXCHANGES)
        return True

    def declare(self, wanted: Exchange) -> bool:
        """False if it is there already; raises as check_declare()."""
        if is_new := self.check_declare(wanted):
            self._put(wanted)
            self._topics.changed()
        return is_new

    def copied(self, topics: Bindings) -> Exchanges:
        """Its exchanges without their bindings, to try what can be bound; numbers go on from here."""
        made = Exchanges(self._namespace, topics, self._seed)
        for exchange in self._all.values():
            made._put(exchange)
        made._next_number = self._next_number
        return made

    def _put(self, exchange: Exchange) -> None:
        self._all[exchange.name] = exchange
        self._matchers[exchange.name] = matcher_of(exchange.type, exchange.arguments, self._seed)

    # Bindings

    @property
    def bindings(self) -> list[Binding]:
        return list(self._bindings.values())

    def bindings_of(self, source: str) -> list[Binding]:
        return list(self._of.get(source, {}).values())

    def bindings_to(self, destination: Destination) -> list[Binding]:
        return list(self._to.get(destination, {}).values())

    def bound(self, source: str, destination: Destination, key: str, arguments: Mapping[str, Value]) -> Binding | None:
        """The binding that was made with all of this."""
        return self._identities.get(Binding(0, source, destination, key, arguments).identity)

    def new_binding(
        self, source: str, destination: Destination, key: str, arguments: Mapping[str, Value] | None = None
    ) -> Binding:
        """One that bind() will take: NoSuchExchange, DefaultExchange, ExchangeLimit, InvalidArgument."""
        self.find(source)
        if DEFAULT_EXCHANGE in (source, destination.name if destination.kind == "exchange" else None):
            raise DefaultExchange
        if destination.kind == "exchange":
            self.find(destination.name)
        check_key(key)
        check_arguments(arguments or {})
        if len(self._bindings) >= MAX_BINDINGS:
            raise ExchangeLimit(self._namespace, "bindings", MAX_BINDINGS)
        made = Binding(self._next_number, source, destination, key, arguments or {})
        self._matchers[source].check(made)
        self._next_number += 1
        return made

    def bind(self, binding: Binding) -> None:
        """Whose source and destination are there."""
        self._matchers[binding.source].add(binding)
        self._bindings[binding.number] = binding
        self._identities[binding.identity] = binding
        self._of.setdefault(binding.source, {})[binding.number] = binding
        self._to.setdefault(binding.destination, {})[binding.number] = binding
        if binding.destination.kind != "queue":
            self._onward.setdefault(binding.source, {})[binding.number] = binding
        self._next_number = max(self._next_number, binding.number + 1)
        self._changed()

    def unbind(self, binding: Binding) -> None:
        self._matchers[binding.source].remove(binding)
        del self._bindings[binding.number], self._identities[binding.identity]
        _discard(self._of, binding.source, binding.number)
        _discard(self._to, binding.destination, binding.number)
        if binding.destination.kind != "queue":
            _discard(self._onward, binding.source, binding.number)
        self._changed()

    # What goes with what

    def without(
        self,
        *,
        exchange: str | None = None,
        queue: str | None = None,
        bindings: Iterable[Binding] = (),
        staying: Iterable[str] = (),
    ) -> Removal:
        """What goes with them: bindings from and to what is gone, exchanges that go with the last of their bindings,
        and so on. Those of `staying` stay though they have none. Changes nothing."""
        gone: dict[int, Binding] = {}
        exchanges: dict[str, Exchange] = {}
        waiting = [*bindings]
        if queue is not None:
            waiting += self.bindings_to(Destination("queue", queue))
        if exchange is not None:
            exchanges[exchange] = self.find(exchange)
            waiting += self._around(exchange)
        left: dict[str, int] = {}
        kept = frozenset(staying)
        while waiting:
            binding = waiting.pop()
            if binding.number in gone:
                continue
            gone[binding.number] = binding
            source = binding.source
            left[source] = left.get(source, len(self._of[source])) - 1
            if not left[source] and self._all[source].auto_delete and source not in exchanges and source not in kept:
                exchanges[source] = self._all[source]
                waiting += self._around(source)
        return Removal(list(exchanges.values()), list(gone.values()))

    def _around(self, exchange: str) -> list[Binding]:
        return self.bindings_of(exchange) + self.bindings_to(Destination("exchange", exchange))

    def remove(self, removal: Removal) -> None:
        """What of it is still there."""
        for binding in removal.bindings:
            if binding.number in self._bindings:
                self.unbind(binding)
        for exchange in removal.exchanges:
            if self._all.pop(exchange.name, None) is not None:
                del self._matchers[exchange.name]
        self._changed()

    def _changed(self) -> None:
        self._topics.beyond = self._beyond if self._of.get(TOPIC_EXCHANGE) else None
        self._topics.changed()

    # Routing

    def reads_headers(self, exchange: str) -> bool:
        """Whether routes of messages published to it depend on their headers."""
        self._forget_old()
        if (known := self._reading.get(exchange)) is None:
            known = self._reading[exchange] = self._reaches_headers(exchange)
        return known

    def _reaches_headers(self, first: str) -> bool:
        seen, waiting = {first}, [first]
        while waiting:
            name = waiting.pop()
            exchange = self._all.get(name)
            if exchange is None:
                continue
            if self._matchers[name].needs_headers or exchange.type == DELAYED_TYPE:
                return True
            following = [each.destination.name for each in self._onward.get(name, {}).values()]
            if exchange.alternate is not None:
                following.append(exchange.alternate)
            waiting += [each for each in following if each not in seen]
            seen.update(following)
        return False

    def route(self, exchange: str, key: bytes, headers: Headers = NO_HEADERS, *, is_inside: bool = False) -> Routed:
        """Remembered until something changes. NoSuchExchange, ExchangeInternal unless the broker itself publishes;
        InvalidArgument for a message that asks for what is not there yet."""
        if is_inside and self.find(exchange).internal:
            return self._walk(exchange, key, headers)
        if self._version == self._topics.version and (known := self._routes.get((exchange, key))) is not None:
            return known
        if not self.reads_headers(exchange):
            found = self._found(exchange, key, headers)
            if len(key) <= _CACHED_KEY_BYTES:
                _keep(self._routes, _CACHED_ROUTES, (exchange, key), found)
            return found
        asked = exchange, key, headers.data, headers.read
        if (known := self._by_headers.get(asked)) is None:
            known = self._found(exchange, key, headers)
            if len(key) <= _CACHED_KEY_BYTES and len(headers.data) <= _CACHED_HEADER_BYTES:
                _keep(self._by_headers, _CACHED_BY_HEADERS, asked, known)
        return known

    def route_several(self, exchange: str, keys: Sequence[bytes], headers: Headers = NO_HEADERS) -> Routed:
        """Of a message with several keys: each queue once, and alternate exchanges only if none of the keys is bound.
        Raises as route()."""
        found = [self.route(exchange, key, headers) for key in keys]
        if any(each.queues and not each.is_alternate for each in found):
            found = [each for each in found if not each.is_alternate]
        queues = dict.fromkeys([queue for each in found for queue in each.queues])
        topic = next((each.topic for each in found if each.topic is not None), None)
        return Routed(tuple(queues), any(each.is_alternate for each in found), topic)

    def _forget_old(self) -> None:
        if self._version != self._topics.version:
            self._version = self._topics.version
            self._routes.clear()
            self._by_headers.clear()
            self._reading.clear()

    def _found(self, exchange: str, key: bytes, headers: Headers) -> Routed:
        if self.find(exchange).internal:
            raise ExchangeInternal(exchange)
        if exchange == DEFAULT_EXCHANGE:
            queue = key.decode("utf-8", "replace")
            return Routed((queue,) if self._topics.asked(queue) else (), False, None)
        return self._walk(exchange, key, headers)

    def _walk(self, first: str, key: bytes, headers: Headers) -> Routed:
        """Each exchange once, whatever circles their bindings make."""
        queues: dict[str, None] = {}
        seen, waiting = {first}, [first]
        is_alternate, topic = False, None
        while waiting:
            name = waiting.pop()
            exchange = self._all[name]
            if exchange.type == DELAYED_TYPE and DELAY in headers.read(headers.data):
                raise InvalidArgument(f"{DELAY} is not in this version: publish without it")
            following = [binding.destination for binding in self._matchers[name].match(key, headers)]
            if name == TOPIC_EXCHANGE:
                topic = topic_of_key(key)
                following += [Destination("queue", queue) for queue in self._bound_to_topics(key)]
            if not following and exchange.alternate is not None and exchange.alternate in self._all:
                is_alternate = True
                following = [Destination("exchange", exchange.alternate)]
            for kind, target in following:
                if kind == "queue":
                    queues[target] = None
                elif target not in seen:
                    seen.add(target)
                    waiting.append(target)
        return Routed(tuple(queues), is_alternate, topic)

    def _bound_to_topics(self, key: bytes) -> Iterable[str]:
        """As filters of topics match: a key that begins with `$`, or has no words, only those who want all."""
        if not key or key.startswith(b"$"):
            return self._topics.bound_to_all()
        return self._topics.bound(swapped(key))

    def _beyond(self, topic: bytes) -> tuple[str, ...]:
        """Queues that an ordinary topic reaches by bindings of `amq.topic` that are no filters. Where these look at
        headers, as a message without any."""
        return self._walk(TOPIC_EXCHANGE, swapped(topic), NO_HEADERS).queues


def check_key(key: str) -> None:
    """InvalidArgument unless a binding can have it."""
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise InvalidArgument(f"the key of a binding has half of a surrogate pair in it: {key[:40]!r}") from None
    if size > MAX_KEY_BYTES:
        raise InvalidArgument(f"the key of a binding is {size} bytes, the limit is {MAX_KEY_BYTES}: {key[:40]!r}…")


def check_arguments(arguments: Mapping[str, Value]) -> None:
    """InvalidArgument for more than anybody needs: they are kept in memory."""
    if len(arguments) > MAX_ARGUMENTS or len(repr(arguments)) > MAX_ARGUMENT_BYTES:
        raise InvalidArgument(
            f"{len(arguments)} arguments are too many or too long: at most {MAX_ARGUMENTS}, "
            f"of {MAX_ARGUMENT_BYTES} bytes together"
        )


def _refuse_difference(found: Exchange, wanted: Exchange) -> None:
    for what in ("type", "is_durable", "auto_delete", "internal", "alternate", "arguments"):
        mine, theirs = getattr(found, what), getattr(wanted, what)
        if mine != theirs:
            raise ExchangeDiffers(found.name, what.removeprefix("is_"), theirs, mine)


def _discard(table: dict[Key, dict[int, Binding]], key: Key, number: int) -> None:
    mine = table[key]
    del mine[number]
    if not mine:
        del table[key]


def _keep(cache: dict[Key, Routed], limit: int, key: Key, found: Routed) -> None:
    if len(cache) >= limit:
        cache.clear()
    cache[key] = found
