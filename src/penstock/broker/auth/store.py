"""Users, API keys and rules, as records in one compacted log. The newest of a key is the truth."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from penstock.broker.auth.rules import Rule
from penstock.broker.auth.scram import ScramKeys
from penstock.broker.catalogue.copied import CopiedLog
from penstock.core.errors import DirectoryFormat
from penstock.core.types import LogName
from penstock.log.journal.late import Part
from penstock.log.names import log_name
from penstock.log.records import Compaction, LogSettings
from penstock.log.shard import Shard
from penstock.queues.names import DEFAULT_NAMESPACE

NAME: LogName = log_name("@auth")
_SETTINGS = LogSettings(segment_bytes=4 << 20, compaction=Compaction(lag_s=60.0, tombstone_s=3600.0))
_USER, _RULE, _SECRET, _API_KEY = "user:", "rule:", "secret:", "key:"


class User(msgspec.Struct, frozen=True):
    """Without a hash there is no login by password; without keys none by SCRAM."""

    name: str
    password_hash: str | None = None
    scram: ScramKeys | None = None
    roles: tuple[str, ...] = ()
    namespace: str = DEFAULT_NAMESPACE
    created_ms: int = 0
    changed_ms: int = 0

    def __repr__(self) -> str:
        """Without what a password could be guessed from."""
        return f"User({self.name!r}, roles={self.roles!r}, namespace={self.namespace!r})"


class ApiKey(msgspec.Struct, frozen=True):
    """A login by itself, with roles of its own. `hash` is the SHA-256 of its secret."""

    id: str
    hash: bytes
    roles: tuple[str, ...] = ()
    namespace: str = DEFAULT_NAMESPACE
    description: str = ""
    created_ms: int = 0
    expires_ms: int | None = None

    def __repr__(self) -> str:
        """Without the hash: it is of no use to who reads a log."""
        return f"ApiKey({self.id!r}, roles={self.roles!r}, namespace={self.namespace!r})"


class Secret(msgspec.Struct, frozen=True):
    """From which salts of users are made that are not there."""

    value: bytes


Record = User | ApiKey | Rule | Secret
_KINDS: dict[str, type[User] | type[ApiKey] | type[Rule] | type[Secret]] = {
    "user": User,
    "key": ApiKey,
    "rule": Rule,
    "secret": Secret,
}


@dataclass(slots=True)
class Stored:
    """What stands. Rules in the order in which they came."""

    users: dict[str, User] = field(default_factory=dict)
    keys: dict[str, ApiKey] = field(default_factory=dict)
    rules: dict[str, Rule] = field(default_factory=dict)
    secret: Secret | None = None

    def apply(self, key: str, record: Record | None) -> None:
        if key.startswith(_USER):
            self.users.pop(key.removeprefix(_USER), None)
        elif key.startswith(_API_KEY):
            self.keys.pop(key.removeprefix(_API_KEY), None)
        elif record is None:
            self.rules.pop(key, None)
        if isinstance(record, User):
            self.users[record.name] = record
        elif isinstance(record, ApiKey):
            self.keys[record.id] = record
        elif isinstance(record, Rule):
            self.rules[key] = record
        elif isinstance(record, Secret):
            self.secret = record

    def fold(self, rows: Iterable[tuple[bytes, bytes]]) -> Stored:
        for encoded, value in rows:
            key = encoded.decode()
            self.apply(key, msgspec.json.decode(value, type=_kind(key)) if value else None)
        return self


def _kind(key: str) -> type[User] | type[ApiKey] | type[Rule] | type[Secret]:
    """To pass over what a newer version wrote could be to pass over a rule that denies."""
    kind = key.partition(":")[0]
    if kind not in _KINDS:
        raise DirectoryFormat(
            f"the log {NAME} has a record of the kind {kind[:40]!r}, which this Penstock does not know: "
            f"use the version that wrote it, or a newer one"
        )
    return _KINDS[kind]


def key_of(record: Record) -> str:
    """The same rule twice is one rule."""
    if isinstance(record, User):
        return _USER + record.name
    if isinstance(record, ApiKey):
        return _API_KEY + record.id
    return _RULE + msgspec.json.encode(record).decode() if isinstance(record, Rule) else _SECRET


class Store:
    """The log of a shard that is open. Used from the loop."""

    def __init__(self, copied: CopiedLog) -> None:
        self._copied = copied

    @classmethod
    async def open(cls, shard: Shard) -> Store:
        """LogDamaged if neither copy is whole: to go on without some of it could be to go on without a rule that
        denies."""
        return cls(await CopiedLog.open(shard, NAME, _SETTINGS))

    def read(self) -> Stored:
        return Stored().fold(self._copied.rows())

    async def write(self, changes: Iterable[tuple[str, Record | None]]) -> None:
        """All in one commit; None deletes."""
        await self._copied.write(_encoded(changes))

    def parts(self, changes: Iterable[tuple[str, Record | None]]) -> list[Part]:
        """write() as parts of another commit, see CopiedLog.parts()."""
        return self._copied.parts(_encoded(changes))


def _encoded(changes: Iterable[tuple[str, Record | None]]) -> list[tuple[str, bytes]]:
    return [(key, b"" if record is None else msgspec.json.encode(record)) for key, record in changes]
