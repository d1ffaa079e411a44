"""Looking up a user property in a record's properties, which have the MQTT 5 encoding without the total length."""

from __future__ import annotations

USER_PROPERTY = 0x26

# Bytes of a property's value where that is fixed (MQTT 5, 2.2.2.2).
_FIXED_BYTES = {
    **dict.fromkeys((0x01, 0x17, 0x19, 0x24, 0x25, 0x28, 0x29, 0x2A), 1),
    **dict.fromkeys((0x13, 0x21, 0x22, 0x23), 2),
    **dict.fromkeys((0x02, 0x11, 0x18, 0x27), 4),
}
_STRINGS = frozenset((0x03, 0x08, 0x09, 0x12, 0x15, 0x16, 0x1A, 0x1C, 0x1F))
_VARIABLE_INTEGER = 0x0B
_MAX_INTEGER_BYTES = 4


def user_property(properties: bytes, name: bytes) -> bytes | None:
    """The value of the first user property of that name. None if there is none, or what comes before is ill-formed."""
    at = 0
    while 0 <= at < len(properties):
        kind = properties[at]
        if kind != USER_PROPERTY:
            at = _after_value(properties, kind, at + 1)
            continue
        value_at = _after_string(properties, at + 1)
        end = _after_string(properties, value_at) if value_at >= 0 else -1
        if end < 0:
            return None
        if properties[at + 3 : value_at] == name:
            return properties[value_at + 2 : end]
        at = end
    return None


def _after_value(properties: bytes, kind: int, at: int) -> int:
    """Where the next property begins, -1 if that cannot be told."""
    if (size := _FIXED_BYTES.get(kind)) is not None:
        return at + size
    if kind in _STRINGS:
        return _after_string(properties, at)
    return _after_integer(properties, at) if kind == _VARIABLE_INTEGER else -1


def _after_string(properties: bytes, at: int) -> int:
    if at + 2 > len(properties):
        return -1
    end = at + 2 + int.from_bytes(properties[at : at + 2], "big")
    return end if end <= len(properties) else -1


def _after_integer(properties: bytes, at: int) -> int:
    for end in range(at, min(at + _MAX_INTEGER_BYTES, len(properties))):
        if properties[end] < 0x80:
            return end + 1
    return -1
