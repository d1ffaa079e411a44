"""The records the log layer keeps about itself: settings and life of logs, edits of a log, segments, epochs."""

from __future__ import annotations

import msgspec

from penstock.core.types import Compression, Durability


class Retention(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What may be dropped, by whole segments. None means no bound of that kind."""

    time_s: float | None = None
    bytes: int | None = None
    records: int | None = None


class Compaction(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Keep the last record of each key. `property` names a user property that is the key instead of the record's. What
    is younger than `lag_s` is neither removed nor does it supersede."""

    property: str | None = None
    lag_s: float = 300.0
    tombstone_s: float = 86400.0
    dirty_ratio: float = 0.5
    interval_s: float = 600.0


class LogSettings(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    durability: Durability = Durability.COMMIT
    compression: Compression = Compression.NONE
    segment_bytes: int = 64 << 20
    segment_age_s: float = 3600.0
    retention: Retention | None = None
    compaction: Compaction | None = None


class Declared(msgspec.Struct, frozen=True):
    """The catalogue's record for a log: the newest one for a number is the truth, an empty value means deleted."""

    number: int
    name: str
    settings: LogSettings


class SegmentInfo(msgspec.Struct, frozen=True, array_like=True):
    """One segment file: `base` and `version` name it, offsets base..end lie in its first `bytes` bytes."""

    base: int
    version: int
    end: int
    bytes: int
    records: int
    first_timestamp: int
    max_timestamp: int


class EpochStart(msgspec.Struct, frozen=True, array_like=True):
    """From offset `start` on, records were written under `epoch`. Where offsets were skipped before it (they may have
    named messages that were lost), `previous_end` is where the records before the gap end."""

    epoch: int
    start: int
    previous_end: int


class Edit(msgspec.Struct, frozen=True, omit_defaults=True):
    """The one control record of a log.

    start: records below are gone. end: below the log's end, records from there on are gone; above it, the offsets
    between
    are skipped. epoch: what is appended from now on carries it. removed, added: segments that one swap takes out and
    puts in. adopted: segments that were written beside the journal; their records follow the log's end."""

    start: int | None = None
    end: int | None = None
    epoch: int | None = None
    removed: tuple[tuple[int, int], ...] = ()
    added: tuple[SegmentInfo, ...] = ()
    adopted: tuple[SegmentInfo, ...] = ()


_encoder = msgspec.json.Encoder()
_edit_decoder = msgspec.json.Decoder(Edit)
_declared_decoder = msgspec.json.Decoder(Declared)


def encode_edit(edit: Edit) -> bytes:
    return _encoder.encode(edit)


def decode_edit(data: bytes | memoryview) -> Edit:
    return _edit_decoder.decode(data)


def encode_declared(record: Declared) -> bytes:
    return _encoder.encode(record)


def decode_declared(data: bytes | memoryview) -> Declared:
    return _declared_decoder.decode(data)
