"""What a server says of queues and of rows that were written. All of it can be pickled."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Partition:
    """Offsets start..end can be read now; not each of them need name a row. `rows`: of the whole partition. `log`: a
    number that no other partition ever had, None while nothing was put into this one; a queue that was deleted and
    created anew has other ones."""

    number: int
    start: int
    end: int
    rows: int
    log: int | None
