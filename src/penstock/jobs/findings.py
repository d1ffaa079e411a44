"""What an audit finds, and what it makes of it."""

from __future__ import annotations

import enum

import msgspec

from penstock.log.reading.cuts import DirectoryState


class Kind(enum.StrEnum):
    """What is wrong."""

    MISSING_FILE = "missing-file"
    DAMAGED = "damaged-batch"
    JOURNAL = "damaged-journal"
    COPY = "damaged-copy"
    STOPPED = "stopped-log"
    BOOKS = "wrong-count"
    GAP = "gap"
    DUPLICATE = "duplicate"
    ORDER = "order"
    SETTLEMENT = "settlement"
    PRODUCER = "producer"
    DEAD_LETTER = "dead-letter"
    STAGED = "staged-epoch"


_REPAIR = "see what can be done with `penstock log repair DIR`, or restore a backup"
_ADVICE = {
    Kind.MISSING_FILE: f"put the file back if somebody moved it; else {_REPAIR}",
    Kind.DAMAGED: f"{_REPAIR}; look at the disk",
    Kind.JOURNAL: "start no server on it; " + _REPAIR,
    Kind.COPY: "nothing is lost: the other copy is whole, and the next start writes it anew; look at the disk",
    Kind.STOPPED: _REPAIR,
    Kind.BOOKS: f"records were added or taken away behind Penstock's back: {_REPAIR}",
    Kind.GAP: f"records were lost: {_REPAIR}",
    Kind.DUPLICATE: "consumers get it twice: let them go by message-id; restore a backup from before",
    Kind.ORDER: "consumers get messages in another order than they were sent: restore a backup from before",
    Kind.SETTLEMENT: "messages come again, or are passed over: compare with what consumers did, then "
    "`penstock group reset`",
    Kind.PRODUCER: "a producer that sends again may be told of messages that are not there: give it a new epoch",
    Kind.DEAD_LETTER: "the message it was made from cannot be looked at; the dead letter itself is whole",
    Kind.STAGED: "what the pipeline committed is not there: run it again from a checkpoint before that epoch",
}
_DAMAGE = frozenset({Kind.MISSING_FILE, Kind.DAMAGED, Kind.JOURNAL, Kind.COPY, Kind.STOPPED})


class Verdict(enum.StrEnum):
    OK = "ok"
    INCONSISTENT = "inconsistent"
    """every byte is what it was, but the records contradict each other"""
    DAMAGED = "damaged"
    """bytes are missing or wrong"""


class Finding(msgspec.Struct, frozen=True):
    """`log` is empty for what concerns the directory; `offset` is -1 where none can be told."""

    kind: Kind
    log: str
    file: str
    offset: int
    reason: str
    position: int = -1
    """in the file, in bytes"""

    @property
    def advice(self) -> str:
        return _ADVICE[self.kind]


class Checked(msgspec.Struct, frozen=True):
    """How much was looked at."""

    logs: int = 0
    segments: int = 0
    batches: int = 0
    records: int = 0
    size_bytes: int = 0
    groups: int = 0
    settlements: int = 0
    """records of state logs"""
    producer_calls: int = 0
    dead_letters: int = 0
    journal_frames: int = 0

    def plus(self, other: Checked) -> Checked:
        return Checked(*(getattr(self, name) + getattr(other, name) for name in self.__struct_fields__))


# What is listed: a log that was cut into by somebody else's tool has one for each batch.
MAX_FINDINGS = 1000


class AuditReport(msgspec.Struct, frozen=True):
    directory: str
    state: DirectoryState
    checked: Checked
    findings: list[Finding]
    more_findings: int = 0
    """that are not listed"""

    @property
    def verdict(self) -> Verdict:
        if any(finding.kind in _DAMAGE for finding in self.findings):
            return Verdict.DAMAGED
        return Verdict.INCONSISTENT if self.findings else Verdict.OK
