"""A queue's name as levels of a topic: what follows `$queue/`, or `$dlq/`.

Any text can be a name. What a topic cannot have, or reads as something else, is percent-encoded: `+`, `#`, a `$` that
begins a level, `/` where a level would be empty, and `%` where it would be taken for that. So is what would name the
dead letters of another queue: `orders.dlq` as a name of its own is `orders%2Edlq`. Each name has one path, and a path
that is written in another way is refused: rules are about paths."""

from __future__ import annotations

import re
from functools import lru_cache

from penstock.core.errors import InvalidArgument

QUEUE_PREFIX = "$queue/"
DEAD_LETTER_PREFIX = "$dlq/"

_DEAD_LETTER_PATH = "dlq/"
_DEAD_LETTER_SUFFIX = ".dlq"
_ESCAPED = re.compile(r"%(?=25|2B|23|24|2F|2E)|[+#]")
_LEVEL_DOLLAR = re.compile(r"(?:^|(?<=/))\$")
_ESCAPE = re.compile(r"%(25|2B|23|24|2F|2E)")
_CACHED = 4096


def is_dead_letter_queue(name: str) -> bool:
    return name.startswith(DEAD_LETTER_PREFIX) and len(name) > len(DEAD_LETTER_PREFIX)


def dead_letter_queue(queue: str) -> str:
    """Where a queue's dead letters go unless its settings say otherwise."""
    return DEAD_LETTER_PREFIX + queue


@lru_cache(_CACHED)
def queue_topic(name: str) -> str:
    """The topic that a queue is addressed by, and that stands for it in rules: `$queue/orders`, `$dlq/orders`."""
    if is_dead_letter_queue(name):
        return DEAD_LETTER_PREFIX + _levels(name.removeprefix(DEAD_LETTER_PREFIX))
    return QUEUE_PREFIX + _named_apart(_levels(name))


@lru_cache(_CACHED)
def queue_of_path(path: str) -> str:
    """The name that a path below `$queue/` spells, or `$dlq/…`, where no queue is declared that says otherwise.
    InvalidArgument for one that is written in another way than queue_topic() does."""
    path = as_dead_letters(path)
    topic = path if is_dead_letter_queue(path) else QUEUE_PREFIX + path
    name = _ESCAPE.sub(_character, path)
    if (wanted := queue_topic(name)) != topic:
        raise InvalidArgument(f"{topic[:300]!r} names a queue in another way than {wanted[:300]!r}: write it so")
    return name


def as_dead_letters(name: str) -> str:
    """`$dlq/orders` of `dlq/orders` and `orders.dlq`; others as they are."""
    if name.startswith(_DEAD_LETTER_PATH) and len(name) > len(_DEAD_LETTER_PATH):
        return DEAD_LETTER_PREFIX + name.removeprefix(_DEAD_LETTER_PATH)
    if name.endswith(_DEAD_LETTER_SUFFIX) and len(name) > len(_DEAD_LETTER_SUFFIX) and not is_dead_letter_queue(name):
        return DEAD_LETTER_PREFIX + name.removesuffix(_DEAD_LETTER_SUFFIX)
    return name


def canonical_queue(name: str) -> str:
    """The name as the broker keeps it, where there is no queue of that very name: `dlq/orders` and `orders.dlq` are
    ways to write `$dlq/orders`, and what begins with `$queue/` is a path."""
    if name.startswith(QUEUE_PREFIX):
        return queue_of_path(name.removeprefix(QUEUE_PREFIX))
    return as_dead_letters(name)


def own_topics(queue: str) -> list[str]:
    """The topics that are this queue's whatever else is declared; more may follow behind a `/`."""
    topic = queue_topic(queue)
    plain = QUEUE_PREFIX + _levels(queue)
    return [topic] if is_dead_letter_queue(queue) or plain == topic else [topic, plain]


def other_topics(queue: str) -> list[str]:
    """The other ways to write a dead-letter queue: they are of a queue of that very name, where there is one."""
    if not is_dead_letter_queue(queue):
        return []
    topic = queue_topic(queue)
    source = topic.removeprefix(DEAD_LETTER_PREFIX)
    return [f"{QUEUE_PREFIX}{way}" for way in (topic, _DEAD_LETTER_PATH + source, source + _DEAD_LETTER_SUFFIX)]


def _levels(name: str) -> str:
    path = _ESCAPED.sub(_escape, name)
    if not all(path.split("/")):
        path = path.replace("/", "%2F")
    return _LEVEL_DOLLAR.sub("%24", path)


def _named_apart(path: str) -> str:
    """Not to be taken for dead letters."""
    if path.startswith(_DEAD_LETTER_PATH):
        path = path.replace("/", "%2F", 1)
    if path.endswith(_DEAD_LETTER_SUFFIX) and len(path) > len(_DEAD_LETTER_SUFFIX):
        path = path.removesuffix(_DEAD_LETTER_SUFFIX) + "%2Edlq"
    return path


def _escape(found: re.Match[str]) -> str:
    return f"%{ord(found[0]):02X}"


def _character(found: re.Match[str]) -> str:
    return chr(int(found[1], 16))
