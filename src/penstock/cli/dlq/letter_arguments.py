"""Choosing dead letters on a command line."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypedDict

import click

# As penstock.queues.deadletter has them, which would bring the rules of queues with it.
REASONS = ("rejected", "max-retries", "total-timeout", "max-deliveries")


class Which(TypedDict):
    """As the client takes it."""

    group: str | None
    reason: str | None
    source: str | None


@dataclass(frozen=True, slots=True)
class Letters:
    """What is None asks for nothing; all that is said must hold."""

    ids: tuple[str, ...]
    group: str | None
    reason: str | None
    source: str | None
    limit: int | None

    @property
    def is_everything(self) -> bool:
        return not (self.ids or self.group or self.reason or self.source)

    @property
    def which(self) -> Which:
        return {"group": self.group, "reason": self.reason, "source": self.source}


_OPTIONS = (
    click.option(
        "--id",
        "ids",
        metavar="ID",
        multiple=True,
        help="Only this dead letter: its id, or that of the original message. Can be repeated.",
    ),
    click.option("--group", metavar="GROUP", help="Only dead letters of this group."),
    click.option("--reason", type=click.Choice(REASONS), help="Only dead letters with this reason."),
    click.option("--source", metavar="QUEUE", help="Only dead letters from this queue."),
    click.option("-n", "--limit", metavar="N", type=click.IntRange(min=1), help="At most N dead letters."),
)
_NAMES = tuple(Letters.__dataclass_fields__)


def letter_options(command: Callable[..., object]) -> Callable[..., object]:
    """The options, as one parameter `letters`."""

    @functools.wraps(command)
    def with_letters(**given: object) -> object:
        # click has converted each to the type of its field.
        letters = Letters(**{name: given.pop(name) for name in _NAMES})  # type: ignore[arg-type]
        return command(letters=letters, **given)

    wrapped: Callable[..., object] = with_letters
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped
