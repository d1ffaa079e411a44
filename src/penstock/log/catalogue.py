"""The catalogue: name → number and settings of every log of a shard, itself log number 0. State is the fold of its
records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from penstock.core.errors import LogExists, NoSuchLog
from penstock.core.ports import Buffer
from penstock.core.types import LogName, LogNumber
from penstock.log.batch import Batch
from penstock.log.columns import Columns
from penstock.log.names import CATALOGUE_NAME, CATALOGUE_NUMBER
from penstock.log.records import Compaction, Declared, LogSettings, decode_declared, encode_declared

FIRST_NUMBER = LogNumber(1)
# The newest record of each log is all that is needed, so the catalogue does not grow with what was deleted.
CATALOGUE_SETTINGS = LogSettings(compaction=Compaction())


@dataclass(frozen=True, slots=True)
class CatalogueChange:
    """What one record of the catalogue says: declared, or deleted when `declared` is None."""

    number: LogNumber
    declared: Declared | None


def changes(batch: Buffer) -> Iterator[CatalogueChange]:
    parsed = Batch.parse(batch)
    for row in range(parsed.header.count):
        number = LogNumber(int(parsed.key(row) or b"0"))
        value = parsed.value(row)
        yield CatalogueChange(number, decode_declared(value) if value else None)


@dataclass(slots=True)
class Catalogue:
    """decide_… give the columns to append to log 0, apply() folds them; nothing else changes the state."""

    declared: dict[LogNumber, Declared] = field(default_factory=dict)
    numbers: dict[str, LogNumber] = field(default_factory=dict)
    next_number: LogNumber = FIRST_NUMBER

    def __post_init__(self) -> None:
        self.apply(CatalogueChange(CATALOGUE_NUMBER, Declared(0, CATALOGUE_NAME, CATALOGUE_SETTINGS)))

    def number_of(self, name: str) -> LogNumber:
        if (number := self.numbers.get(name)) is None:
            raise NoSuchLog(name)
        return number

    def decide_create(self, logs: Sequence[tuple[LogName, LogSettings]]) -> list[Declared]:
        taken = set[str]()
        for name, _ in logs:
            if name in self.numbers or name in taken:
                raise LogExists(name)
            taken.add(name)
        return [Declared(self.next_number + i, name, settings) for i, (name, settings) in enumerate(logs)]

    def apply(self, change: CatalogueChange) -> None:
        old = self.declared.pop(change.number, None)
        if old is not None:
            self.numbers.pop(old.name, None)
        if change.declared is not None:
            self.declared[change.number] = change.declared
            self.numbers[change.declared.name] = change.number
        self.next_number = LogNumber(max(self.next_number, change.number + 1))


def declared_columns(records: list[Declared]) -> Columns:
    return Columns.of(
        [encode_declared(record) for record in records], keys=[b"%d" % record.number for record in records]
    )


def deleted_columns(numbers: Sequence[LogNumber]) -> Columns:
    return Columns.of([b""] * len(numbers), keys=[b"%d" % number for number in numbers])
