"""Groups as a table."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.cli.output import age_text, print_table
from penstock.core.descriptions import GroupDescription

_COLUMNS = ["group", "filter", "members", "lag", "oldest", "depth", "in flight", "waiting", "state"]
_NUMBERS = ["members", "lag", "oldest", "depth", "in flight", "waiting"]


def print_groups(groups: Sequence[GroupDescription], *, with_queue: bool = False) -> None:
    """`with_queue` puts the queue's name before each."""
    rows = [([group.queue] if with_queue else []) + _row(group) for group in groups]
    print_table((["queue"] if with_queue else []) + _COLUMNS, rows, numbers=_NUMBERS)


def _row(group: GroupDescription) -> list[object]:
    lag = f"{group.lag:,}", age_text(group.lag_s) if group.lag else "-"
    held = f"{group.depth:,}", group.in_flight, group.waiting
    state = "paused" if group.is_paused else "-"
    return [group.name, group.filter or "-", len(group.members), *lag, *held, state]
