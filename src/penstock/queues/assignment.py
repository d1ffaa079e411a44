"""Which member of a group reads which partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.core.errors import InvalidArgument


def assign(partitions: int, members: Iterable[int], current: Mapping[int, int]) -> dict[int, int]:
    """The member of every partition 0, 1, … `partitions` - 1; empty where there are no members. Pure.

    No member gets two more than another, and no other such assignment leaves more partitions where `current` has them
    (owners that are no longer members do not count). The same arguments give the same answer, whatever the order of
    the members. Costs O(partitions + members log members).

    A member that has too many keeps its lowest: when the answer changes while partitions still move, it gives up more
    or fewer of the same ones, not others."""
    if partitions < 0:
        raise InvalidArgument(f"a group cannot have {partitions} partitions: give 0 or more")
    held: dict[int, list[int]] = {member: [] for member in members}
    if not held:
        return {}
    free = _sort_out(partitions, current, held)
    wanted = _trim_to_share(partitions, held, free)
    assigned = {partition: member for member, kept in held.items() for partition in kept}
    assigned.update(zip(free, wanted, strict=True))
    return assigned


def _sort_out(partitions: int, current: Mapping[int, int], held: dict[int, list[int]]) -> list[int]:
    """Fill `held`, ascending; what nobody holds comes back."""
    free: list[int] = []
    for partition in range(partitions):
        owner = current.get(partition)
        kept = free if owner is None else held.get(owner, free)
        kept.append(partition)
    return free


def _trim_to_share(partitions: int, held: dict[int, list[int]], free: list[int]) -> list[int]:
    """Cut each member to its share, adding the rest to `free`; whoever has less comes back once for each that lacks.

    Where the shares differ by one, the larger go to those who hold the most: the only ones who can keep one for it."""
    share, larger_shares = divmod(partitions, len(held))
    wanted: list[int] = []
    for rank, member in enumerate(sorted(held, key=lambda member: (-len(held[member]), member))):
        own_share = share + (rank < larger_shares)
        kept = held[member]
        free += kept[own_share:]
        del kept[own_share:]
        wanted += [member] * (own_share - len(kept))
    return wanted
