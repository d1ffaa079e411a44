"""Ids and units. A NewType stops an offset from being passed where a byte position is meant."""

from __future__ import annotations

import enum
from typing import NewType

LogNumber = NewType("LogNumber", int)
"""Names a log inside its shard; never used again after the log is deleted."""

LogName = NewType("LogName", str)
"""Percent-encoded parts joined by `/`, made by `penstock.log.names.log_name`."""

Offset = NewType("Offset", int)
"""Names a record inside its log: 0, 1, 2, …"""

Epoch = NewType("Epoch", int)
"""Counts the leaders of a log; fences an old one."""

Sequence = NewType("Sequence", int)
"""Names a frame in the journal of a shard; one order over all its logs."""

Generation = NewType("Generation", int)
"""Names one use of a journal file; a recycled file gets a higher one."""

FilePosition = NewType("FilePosition", int)
"""A byte position inside a file."""

TimestampMs = NewType("TimestampMs", int)
"""Milliseconds since 1970, UTC."""


class Durability(enum.IntEnum):
    """When an append is acknowledged and its records become readable. Ordered: the greater is the stronger."""

    MEMORY = 0
    """staged in memory"""
    INTERVAL = 1
    """written to the journal, which is synced every second"""
    COMMIT = 2
    """journal synced"""


class Compression(enum.IntEnum):
    """How the body of a batch is stored; the number is the one on disk."""

    NONE = 0
    LZ4 = 1
    ZSTD = 2


class Purpose(enum.IntEnum):
    """Which budget of bytes an append is admitted under: a full publish budget never holds up a settlement."""

    PUBLISH = 0
    SETTLE = 1


MAX_PARTITIONS = 10_000
"""of one queue"""
