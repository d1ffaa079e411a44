"""The properties of a message: fourteen fields, each with a bit that says whether it is there."""

from __future__ import annotations

import msgspec

from penstock.codecs.amqp091.kinds import Domain, Table
from penstock.codecs.amqp091.wire import Reader, ill_formed, shortstr_bytes, table_bytes, unsigned_bytes


class Properties(msgspec.Struct, frozen=True):
    content_type: str | None = None
    content_encoding: str | None = None
    headers: Table | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: int | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None


NO_PROPERTIES = Properties()
EMPTY_PROPERTIES = b"\0\0"
# In the order of their bits, from the highest, and of their values.
_DOMAINS: dict[str, Domain | int] = {
    "content_type": Domain.SHORTSTR,
    "content_encoding": Domain.SHORTSTR,
    "headers": Domain.TABLE,
    "delivery_mode": 1,
    "priority": 1,
    "correlation_id": Domain.SHORTSTR,
    "reply_to": Domain.SHORTSTR,
    "expiration": Domain.SHORTSTR,
    "message_id": Domain.SHORTSTR,
    "timestamp": 8,
    "type": Domain.SHORTSTR,
    "user_id": Domain.SHORTSTR,
    "app_id": Domain.SHORTSTR,
    "cluster_id": Domain.SHORTSTR,
}
_UNKNOWN_FLAGS = 0x0003


def read_properties(data: bytes) -> Properties:
    """Flags and values, exactly these bytes. A short string that is no UTF-8 has surrogates in it: only names of things
    must be text."""
    reader = Reader(data)
    flags = reader.unsigned(2, "the property flags")
    if flags & _UNKNOWN_FLAGS:
        raise ill_formed("the property flags have bits that no property has")
    found: dict[str, object] = {}
    for number, (name, domain) in enumerate(_DOMAINS.items()):
        if flags & 0x8000 >> number:
            found[name] = _read(reader, domain, name)
    reader.finish("the properties")
    return Properties(**found)  # type: ignore[arg-type]  # of the types that their domains have


def properties_bytes(properties: Properties) -> bytes:
    """As `read_properties` takes them."""
    flags, parts = 0, []
    for number, (name, domain) in enumerate(_DOMAINS.items()):
        if (value := getattr(properties, name)) is not None:
            flags |= 0x8000 >> number
            parts.append(_written(value, domain, name))
    return flags.to_bytes(2, "big") + b"".join(parts)


def _read(reader: Reader, domain: Domain | int, name: str) -> object:
    if isinstance(domain, int):
        return reader.unsigned(domain, name)
    if domain is Domain.TABLE:
        return reader.table(name)
    return reader.take(reader.unsigned(1, name), name).decode("utf-8", "surrogateescape")


def _written(value: object, domain: Domain | int, name: str) -> bytes:
    if isinstance(domain, int):
        assert isinstance(value, int)
        return unsigned_bytes(value, domain, name)
    if isinstance(value, str):
        return shortstr_bytes(value, name)
    assert isinstance(value, dict)
    return table_bytes(value, name)
