"""Patterns of topics in rules: which topics they match, and how they lie to the filter of a subscription.

A pattern is a topic filter whose levels may hold `%c` (client id) and `%u` (user name). What a client calls itself is
put in as a literal and never becomes a wildcard, a second level or a topic below `$`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from penstock.core.errors import InvalidArgument
from penstock.core.queue_paths import as_dead_letters
from penstock.queues.names import check_filter, topic_of_address

MAX_PATTERN_BYTES = 1024
_PLACEHOLDER = re.compile(r"%(.?)", re.DOTALL)
_NOT_ONE_LEVEL = re.compile(r"[/+#\0]")
# Any text that no pattern spells out stands for all such texts; NUL is in no topic and in no pattern.
_ANY_OTHER = "\0"

Level = str | None
"""None is `+`; text is itself"""


@dataclass(frozen=True, slots=True)
class TopicSet:
    """The topics that a filter matches: level by level, `is_open` if it ends with `#`. As in MQTT a wildcard in the
    first level does not match a topic that begins with `$`, and `a/#` matches `a` too."""

    levels: tuple[Level, ...]
    is_open: bool

    def holds(self, topic: Sequence[str]) -> bool:
        levels, count = self.levels, len(self.levels)
        if len(topic) != count and not (self.is_open and len(topic) > count):
            return False
        if topic[0].startswith("$") and (not count or levels[0] is None):
            return False
        for mine, level in zip(levels, topic, strict=False):  # noqa: SIM110  # half the time of all()
            if mine is not None and mine != level:
                return False
        return True

    def overlaps(self, other: TopicSet) -> bool:
        """Is there a topic that both match?"""
        if not self._lengths_meet(other):
            return False
        if self._is_apart_from(other) or other._is_apart_from(self):
            return False
        pairs = zip(self.levels, other.levels, strict=False)
        return all(mine is None or theirs is None or mine == theirs for mine, theirs in pairs)

    def is_within(self, others: Sequence[TopicSet]) -> bool:
        """Does each topic that this one matches match one of the others?

        There are more words than patterns can spell out. A topic with such a word for each `+` matches only patterns
        that have `+` there, and these match whatever stands there: of each length one topic speaks for all. Lengths
        beyond the longest pattern are alike."""
        return all(_one_holds(others, topic) for topic in self._samples(others))

    def _samples(self, others: Iterable[TopicSet]) -> list[list[str]]:
        topic = [_ANY_OTHER if level is None else level for level in self.levels]
        if not self.is_open:
            return [topic]
        longest = max((len(other.levels) for other in others), default=0)
        lengths = range(max(len(topic), 1), max(len(topic), longest) + 2)
        return [topic + [_ANY_OTHER] * (length - len(topic)) for length in lengths]

    def _lengths_meet(self, other: TopicSet) -> bool:
        mine, theirs = len(self.levels), len(other.levels)
        if mine == theirs:
            return True
        return self.is_open if mine < theirs else other.is_open

    def _is_apart_from(self, other: TopicSet) -> bool:
        """One begins with a wildcard, the other with `$`."""
        return (not self.levels or self.levels[0] is None) and bool(other.levels) and _is_dollar(other.levels[0])


def _one_holds(sets: Iterable[TopicSet], topic: Sequence[str]) -> bool:
    for one in sets:  # noqa: SIM110  # half the time of any()
        if one.holds(topic):
            return True
    return False


def topic_set(topic_filter: str) -> TopicSet:
    """Of a filter or a topic that was checked."""
    levels = topic_filter.split("/")
    is_open = levels[-1] == "#"
    return TopicSet(tuple(None if level == "+" else level for level in (levels[:-1] if is_open else levels)), is_open)


@lru_cache(4096)
def pattern_set(pattern: str) -> TopicSet:
    """Of a pattern of a rule, placeholders left as they are: sessions share them."""
    return topic_set(pattern)


def queue_pattern(path: str) -> str:
    """What a path below `$queue/` stands for in rules, which may have wildcards: `$queue/orders`, `$dlq/orders`."""
    return topic_of_address(as_dead_letters(path))


def check_pattern(pattern: str) -> None:
    """InvalidArgument unless a rule can have it."""
    check_filter(pattern)
    if (size := len(pattern.encode())) > MAX_PATTERN_BYTES:
        raise InvalidArgument(f"a pattern of {size} bytes is too long, the limit is {MAX_PATTERN_BYTES}")
    for match in _PLACEHOLDER.finditer(pattern):
        if match[1] not in ("c", "u", "%"):
            raise InvalidArgument(
                f"pattern {pattern!r} has {match[0]!r} in it: write %c for the client id, %u for the user's name, "
                f"%% for a percent sign"
            )


def has_placeholder(pattern: str) -> bool:
    return "%" in pattern


def fill_allowing(pattern: str, client_id: str, user: str) -> TopicSet | None:
    """The pattern for one client; None, which allows nothing, where a name would reach beyond its level, or make a
    topic below `$` of an ordinary one."""
    whole = pattern_set(pattern)
    levels = _filled(whole.levels, client_id, user)
    if levels is None or (levels and _is_dollar(levels[0]) and not _is_dollar(whole.levels[0])):
        return None
    return TopicSet(levels, whole.is_open)


def fill_denying(pattern: str, client_id: str, user: str) -> TopicSet:
    """The same for a rule that denies: from the level on where a name would reach beyond it, everything is denied."""
    whole = pattern_set(pattern)
    levels = list(whole.levels)
    while (filled := _filled(levels, client_id, user)) is None:
        levels.pop()
    return TopicSet(filled, whole.is_open or len(levels) < len(whole.levels))


def _filled(levels: Iterable[Level], client_id: str, user: str) -> tuple[Level, ...] | None:
    """None if a name is empty or would be more than a part of one level."""
    names = {"%c": client_id, "%u": user, "%%": "%"}
    found: list[Level] = []
    for level in levels:
        if level is None or not has_placeholder(level):
            found.append(level)
        elif all(_is_plain(names[match[0]]) for match in _PLACEHOLDER.finditer(level)):
            # In one pass: a client that is called %u is not asked for its user's name again.
            found.append(_PLACEHOLDER.sub(lambda match: names[match[0]], level))
        else:
            return None
    return tuple(found)


def _is_plain(name: str) -> bool:
    return bool(name) and _NOT_ONE_LEVEL.search(name) is None


def _is_dollar(level: Level) -> bool:
    return level is not None and level.startswith("$")
