"""Which queues a query reads: those that it names, those that its patterns match, and their dead letters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from penstock.core.queue_paths import canonical_queue, dead_letter_queue


class Chosen(NamedTuple):
    found: list[str]
    """each once, sorted"""
    missing: list[str]
    """names, not patterns, of which there is no queue"""


def chosen(
    written: Iterable[str],
    is_there: Callable[[str], bool],
    matching: Callable[[str], Iterable[str]],
    with_dead_letters: bool,
) -> Chosen:
    by_name = {name: _matching(name, is_there, matching) for name in written}
    found = set[str]().union(*by_name.values())
    if with_dead_letters:
        found |= {letters for letters in map(dead_letter_queue, found) if is_there(letters)}
    return Chosen(sorted(found), [name for name in by_name if not by_name[name] and not _is_pattern(name)])


def named(written: str, is_there: Callable[[str], bool]) -> str | None:
    """The queue of this very name, or that it is another way to write; None if neither is there."""
    return next(filter(is_there, (written, canonical_queue(written))), None)


def by_regex(regex: str, known: Iterable[str]) -> list[str]:
    """Whole names, as Kafka's subscribePattern has it; one that begins with `$` only by a pattern that does."""
    pattern, is_internal = re.compile(regex), regex.startswith(("$", "\\$", "[$]"))
    return [name for name in known if (is_internal or not name.startswith("$")) and pattern.fullmatch(name)]


def _matching(written: str, is_there: Callable[[str], bool], matching: Callable[[str], Iterable[str]]) -> set[str]:
    if (name := named(written, is_there)) is not None:
        return {name}
    return set(matching(written)) if _is_pattern(written) else set()


def _is_pattern(written: str) -> bool:
    return "*" in written or "?" in written
