"""Regular expressions that others have written, held to those that end soon: a name is looked at for a millisecond at
most, whatever it is and whatever they say."""

from __future__ import annotations

import re
import re._constants as codes  # type: ignore[import-not-found]  # typeshed does not know it
import re._parser as parser  # type: ignore[import-not-found]  # as above
from collections.abc import Iterator
from typing import Any

from penstock.core.errors import InvalidArgument

MAX_BYTES = 512
# Of a text of 255 characters: each long repeat that may begin anywhere is a power of that.
_MOST_REPEATS, _MOST_WAYS, _SHORT = 2, 4096, 1
_REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)


def regex_of(text: str) -> re.Pattern[str]:
    """InvalidArgument for what is none, or may take long: a repeat within a repeat, more than two of them, many
    alternatives, references to groups."""
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        raise InvalidArgument(f"a regular expression of over {MAX_BYTES} bytes is too long: {text[:40]!r}…")
    try:
        _refuse_slow(text)
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise InvalidArgument(f"{text[:80]!r} is not a regular expression: {error}") from None


def _refuse_slow(text: str) -> None:
    repeats, ways = 0, 1
    for kind, facts, depth in _parts(parser.parse(text), 0):
        if kind is codes.GROUPREF or kind is codes.GROUPREF_EXISTS:
            raise _slow(text, "it refers to what a group matched")
        if kind is codes.BRANCH:
            if depth:
                raise _slow(text, "alternatives are within a repeat")
            ways *= len(facts[1])
        elif kind in _REPEATS and facts[0] != facts[1]:
            if depth:
                raise _slow(text, "a repeat is within another one")
            if facts[1] is codes.MAXREPEAT or facts[1] > _SHORT:
                repeats += 1
            else:
                ways *= 2
        elif kind in _REPEATS and facts[1] > 1:
            ways *= int(facts[1])
    if repeats > _MOST_REPEATS:
        raise _slow(text, f"it has {repeats} repeats, and {_MOST_REPEATS} are the most")
    if ways > _MOST_WAYS:
        raise _slow(text, "it has too many alternatives")


def _slow(text: str, why: str) -> InvalidArgument:
    return InvalidArgument(f"{text[:80]!r} may take too long on some names ({why}): write it simpler")


def _parts(pattern: Any, depth: int) -> Iterator[tuple[Any, Any, int]]:
    """All that it is made of, and within how many repeats."""
    for kind, facts in pattern:
        yield kind, facts, depth
        for inner in _within(facts):
            yield from _parts(inner, depth + (kind in _REPEATS))


def _within(facts: Any) -> Iterator[Any]:
    if isinstance(facts, parser.SubPattern):
        yield facts
    elif isinstance(facts, list | tuple):
        for each in facts:
            yield from _within(each)
