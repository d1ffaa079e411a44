"""What kinds of exchanges there are, and which of its bindings a message takes in each."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from penstock.core.errors import InvalidArgument
from penstock.kernels.hashing import murmur3
from penstock.kernels.topics import MAX_FILTER_LEVELS, SubscriptionTree
from penstock.queues.exchange_headers import Headers, Predicate, Value, as_text, predicate
from penstock.queues.exchange_topics import swapped

TOPIC_TYPE = "topic"
DELAYED_TYPE = "x-delayed-message"
HASH_TYPE = "x-consistent-hash"
TYPES = ("direct", "fanout", TOPIC_TYPE, "headers", HASH_TYPE, DELAYED_TYPE)
HASH_HEADER = "hash-header"
_DELAYED_AS = "x-delayed-type"

_MAX_WEIGHT = 1000
# Of one unit of weight: two queues of weight 10 get 47 to 53 % of the keys.
_POINTS = 40
# A level before all words: a key may begin with `$`, and the key without words is the parent of all others.
_ROOT = b"k"


class Destination(NamedTuple):
    kind: Literal["queue", "exchange"]
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}"


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    number: int
    """of its namespace, by which it is stored"""
    source: str
    destination: Destination
    key: str
    arguments: Mapping[str, Value] = field(default_factory=dict)

    @property
    def identity(self) -> object:
        """What makes it the same binding as another."""
        return self.source, self.destination, self.key, _frozen(self.arguments) if self.arguments else None


class Matcher(Protocol):
    """The bindings of one exchange."""

    needs_headers: bool

    def check(self, binding: Binding) -> None:
        """InvalidArgument for what an exchange of this type cannot have."""
        ...

    def add(self, binding: Binding) -> None: ...

    def remove(self, binding: Binding) -> None: ...

    def match(self, key: bytes, headers: Headers) -> Iterable[Binding]: ...


class _Any:
    """Takes whatever binding."""

    needs_headers = False

    def check(self, binding: Binding) -> None:
        """None is refused."""


class Direct(_Any):
    def __init__(self) -> None:
        self._by_key: dict[bytes, dict[int, Binding]] = {}

    def add(self, binding: Binding) -> None:
        self._by_key.setdefault(binding.key.encode(), {})[binding.number] = binding

    def remove(self, binding: Binding) -> None:
        mine = self._by_key[binding.key.encode()]
        del mine[binding.number]
        if not mine:
            del self._by_key[binding.key.encode()]

    def match(self, key: bytes, headers: Headers) -> Iterable[Binding]:
        return self._by_key.get(key, _NONE).values()


class Fanout(_Any):
    def __init__(self) -> None:
        self._all: dict[int, Binding] = {}

    def add(self, binding: Binding) -> None:
        self._all[binding.number] = binding

    def remove(self, binding: Binding) -> None:
        del self._all[binding.number]

    def match(self, key: bytes, headers: Headers) -> Iterable[Binding]:
        return self._all.values()


class Topic(_Any):
    """Words are levels of a tree; patterns that it cannot hold, with a `#` before other words, are tried one by one."""

    def __init__(self, seed: int = 0) -> None:
        self._tree = SubscriptionTree(seed)
        self._by_number: dict[int, Binding] = {}
        self._others: dict[int, tuple[list[bytes], Binding]] = {}
        self._found = array("q")

    def __len__(self) -> int:
        return len(self._by_number) + len(self._others)

    def add(self, binding: Binding) -> None:
        planted = _planted(binding.key)
        if planted is None:
            self._others[binding.number] = _words(binding.key.encode()), binding
        else:
            self._tree.add(planted, binding.number)
            self._by_number[binding.number] = binding

    def remove(self, binding: Binding) -> None:
        planted = _planted(binding.key)
        if planted is None:
            del self._others[binding.number]
        else:
            self._tree.remove(planted, binding.number)
            del self._by_number[binding.number]

    def match(self, key: bytes, headers: Headers) -> list[Binding]:
        found: list[Binding] = []
        if self._by_number:
            del self._found[:]
            topic = _ROOT + b"/" + swapped(key) if key else _ROOT
            self._tree.match(topic, 0, len(topic), self._found)
            found += map(self._by_number.__getitem__, self._found)
        if self._others:
            words = _words(key)
            found += [binding for pattern, binding in self._others.values() if words_match(pattern, words)]
        return found


class HeadersMatch:
    needs_headers = True

    def __init__(self) -> None:
        self._all: dict[int, tuple[Predicate, Binding]] = {}

    def check(self, binding: Binding) -> None:
        predicate(binding.arguments)

    def add(self, binding: Binding) -> None:
        self._all[binding.number] = predicate(binding.arguments), binding

    def remove(self, binding: Binding) -> None:
        del self._all[binding.number]

    def match(self, key: bytes, headers: Headers) -> Iterable[Binding]:
        values = headers.read(headers.data)
        return [binding for holds, binding in self._all.values() if holds(values, headers.is_text)]


class ConsistentHash:
    """A ring of points, as many for each binding as its key says: of the next one is whoever gets the message."""

    def __init__(self, header: str | None = None) -> None:
        self.needs_headers = header is not None
        self._header = header
        self._all: dict[int, Binding] = {}
        self._ring: tuple[list[int], list[Binding]] | None = None
        """made when it is asked for"""

    def check(self, binding: Binding) -> None:
        _weight(binding)

    def add(self, binding: Binding) -> None:
        self._all[binding.number], self._ring = binding, None

    def remove(self, binding: Binding) -> None:
        del self._all[binding.number]
        self._ring = None

    def match(self, key: bytes, headers: Headers) -> Sequence[Binding]:
        if not self._all:
            return ()
        if self._ring is None:
            self._ring = self._made()
        hashed = key if self._header is None else self._said(headers)
        points, bindings = self._ring
        place = bisect_left(points, murmur3(hashed, 0, len(hashed)))
        return (bindings[place % len(bindings)],)

    def _said(self, headers: Headers) -> bytes:
        value = headers.read(headers.data).get(self._header or "")
        return b"" if value is None else as_text(value).encode()

    def _made(self) -> tuple[list[int], list[Binding]]:
        found: list[tuple[int, int, Binding]] = []
        for binding in self._all.values():
            name = "/".join(binding.destination).encode()
            for number in range(_POINTS * _weight(binding)):
                point = b"%s#%d" % (name, number)
                found.append((murmur3(point, 0, len(point)), binding.number, binding))
        found.sort(key=lambda each: each[:2])
        return [point for point, _, _ in found], [binding for _, _, binding in found]


def matcher_of(type: str, arguments: Mapping[str, Value], seed: int = 0) -> Matcher:
    """InvalidArgument for a type that is none, and for arguments that it cannot have."""
    match type:
        case "direct":
            return Direct()
        case "fanout":
            return Fanout()
        case "topic":
            return Topic(seed)
        case "headers":
            return HeadersMatch()
        case "x-consistent-hash":
            return ConsistentHash(_text(arguments, HASH_HEADER))
        case "x-delayed-message":
            routed_as = _text(arguments, _DELAYED_AS)
            if routed_as is None or routed_as == DELAYED_TYPE:
                raise InvalidArgument(f"an exchange of type {DELAYED_TYPE} needs {_DELAYED_AS}, like direct")
            return matcher_of(routed_as, arguments, seed)
    raise InvalidArgument(f"invalid exchange type {type[:80]!r}: there are {', '.join(TYPES)}")


def words_match(pattern: Sequence[bytes], words: Sequence[bytes]) -> bool:
    """`*` is one word, `#` any number of them. Like wildcards of file names: whoever fails goes back to the last `#`
    alone, so that it takes no longer than the product of both."""
    at = place = 0
    hash_at, behind = -1, 0
    while place < len(words):
        if at < len(pattern) and pattern[at] == b"#":
            hash_at, behind = at, place
            at += 1
        elif at < len(pattern) and pattern[at] in (b"*", words[place]):
            at += 1
            place += 1
        elif hash_at >= 0:
            behind += 1
            at, place = hash_at + 1, behind
        else:
            return False
    return all(word == b"#" for word in pattern[at:])


def _words(key: bytes) -> list[bytes]:
    return key.split(b".") if key else []


def _planted(key: str) -> bytes | None:
    """A pattern as a filter of the tree; None where it has no such."""
    if not key:
        return _ROOT
    words = key.split(".")
    last = words.pop() if words[-1] == "#" else None
    if len(words) + 2 > MAX_FILTER_LEVELS or any("#" in word or "+" in word or "\0" in word for word in words):
        return None
    levels = ["+" if word == "*" else word.replace("/", ".") for word in words]
    return "/".join([_ROOT.decode(), *levels, *([last] if last else [])]).encode()


def _weight(binding: Binding) -> int:
    text = binding.key
    if not (text.isascii() and text.isdecimal() and len(text) <= 4 and 1 <= int(text) <= _MAX_WEIGHT):
        raise InvalidArgument(
            f"the key of a binding to a consistent hash exchange is its weight, 1 to {_MAX_WEIGHT}, not {text[:80]!r}"
        )
    return int(text)


def _text(arguments: Mapping[str, Value], name: str) -> str | None:
    value = arguments.get(name)
    if value is not None and not (isinstance(value, str) and value):
        raise InvalidArgument(f"{name} is {str(value)[:80]!r}: give text")
    return value


def _frozen(value: object) -> object:
    """Hashable, and as different as the values are: 1 is not true, and not 1.0."""
    if isinstance(value, Mapping):
        return frozenset((name, _frozen(each)) for name, each in value.items())
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    return type(value), value


_NONE: dict[int, Binding] = {}
