"""MQTT as its specification describes it, packet by packet and in plain Python: what the kernels are held against."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.kernels import mqtt_columns as names

MALFORMED, PROTOCOL_ERROR = names.MALFORMED_PACKET, names.PROTOCOL_ERROR
FORMAT, EXPIRY, CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION = 0x01, 0x02, 0x03, 0x08, 0x09
SUBSCRIPTION, REASON_STRING, ALIAS, USER = 0x0B, 0x1F, 0x23, 0x26
BITS = {
    FORMAT: names.HAS_FORMAT,
    EXPIRY: names.HAS_EXPIRY,
    CONTENT_TYPE: names.HAS_CONTENT_TYPE,
    RESPONSE_TOPIC: names.HAS_RESPONSE_TOPIC,
    CORRELATION: names.HAS_CORRELATION,
    ALIAS: names.HAS_ALIAS,
    USER: names.HAS_USER_PROPERTIES,
}
REASONS = {
    **dict.fromkeys((4, 5), (0, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99)),
    **dict.fromkeys((6, 7), (0, 0x92)),
}


def variable(value: int) -> bytes:
    out = bytearray()
    while True:
        value, byte = value >> 7, value & 127
        out.append(byte | (128 if value else 0))
        if not value:
            return bytes(out)


def short(value: int) -> bytes:
    return value.to_bytes(2, "big")


def string(value: bytes) -> bytes:
    return short(len(value)) + value


def user_property(name: bytes, value: bytes) -> bytes:
    return bytes([USER]) + string(name) + string(value)


def packet(head: int, body: bytes) -> bytes:
    return bytes([head]) + variable(len(body)) + body


def publish(
    version: int, topic: bytes, payload: bytes, *, flags: int = 0, packet_id: int = 0, properties: bytes = b""
) -> bytes:
    carried = variable(len(properties)) + properties if version == 5 else b""
    return packet(0x30 | flags, string(topic) + (short(packet_id) if flags & 6 else b"") + carried + payload)


def acknowledgement(kind: int, packet_id: int, reason: int | None = None, properties: bytes | None = None) -> bytes:
    body = short(packet_id) + (b"" if reason is None else bytes([reason]))
    body += b"" if properties is None else variable(len(properties)) + properties
    return packet(kind << 4 | (2 if kind == 6 else 0), body)


@dataclass(frozen=True)
class Limits:
    version: int = 5
    packet_bytes: int = 1 << 20
    alias: int = 10
    qos: int = 2
    retain: bool = True


class BadPacket(Exception):
    def __init__(self, reason: int, size: int = 0) -> None:
        super().__init__(hex(reason))
        self.reason, self.size = reason, size


class Incomplete(Exception):
    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


@dataclass
class Seen:
    """What a scan should say: a dict for each row, then why it ended."""

    rows: list[dict[str, object]] = field(default_factory=list)
    why: int = names.NEEDS_BYTES
    position: int = 0
    size: int = 0
    reason: int = 0


def read_stream(data: bytes, limits: Limits, room: int = 1 << 20) -> Seen:
    seen = Seen()
    while seen.position < len(data):
        if len(seen.rows) == room:
            seen.why = names.ROWS_FULL
            break
        rest = data[seen.position :]
        try:
            body_at, seen.size = frame(rest, limits)
            if not 3 <= rest[0] >> 4 <= 7:
                seen.why = names.OTHER_PACKET
                break
            read = read_publish if rest[0] >> 4 == 3 else read_acknowledgement
            seen.rows.append(read(rest[0], rest[body_at : seen.size], limits))
        except BadPacket as bad:
            seen.why, seen.reason, seen.size = names.BAD_PACKET, bad.reason, seen.size or bad.size
            break
        except Incomplete as incomplete:
            seen.size = incomplete.size
            break
        seen.position += seen.size
        seen.size = 0
    return seen


def frame(rest: bytes, limits: Limits) -> tuple[int, int]:
    """Where the body begins and the packet ends."""
    check_head(rest[0], limits)
    at, length = take_variable(rest, 1, limits.version == 5, Incomplete(0))
    if at + length > limits.packet_bytes:
        raise BadPacket(names.PACKET_TOO_LARGE, at + length)
    if at + length > len(rest):
        raise Incomplete(at + length)
    return at, at + length


def check_head(head: int, limits: Limits) -> None:
    kind, qos = head >> 4, head >> 1 & 3
    if kind == 0 or (4 <= kind <= 7 and head & 15 != (2 if kind == 6 else 0)):
        raise BadPacket(MALFORMED)
    if kind == 3 and (qos == 3 or (qos == 0 and head & 8)):
        raise BadPacket(MALFORMED)
    if kind == 3 and qos > limits.qos:
        raise BadPacket(names.QOS_NOT_SUPPORTED)
    if kind == 3 and head & 1 and not limits.retain:
        raise BadPacket(names.RETAIN_NOT_SUPPORTED)


def take_variable(data: bytes, at: int, is_minimal: bool, short_of: Exception) -> tuple[int, int]:
    value = 0
    for i in range(4):
        if at + i >= len(data):
            raise short_of
        value += (data[at + i] & 127) * 128**i
        if data[at + i] < 128:
            if is_minimal and variable(value) != data[at : at + i + 1]:
                raise BadPacket(MALFORMED)
            return at + i + 1, value
    raise BadPacket(MALFORMED)


def take(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise BadPacket(MALFORMED)
    return data[at : at + size]


def take_string(data: bytes, at: int) -> bytes:
    return take(data, at + 2, int.from_bytes(take(data, at, 2), "big"))


def check_text(text: bytes, is_topic: bool = False) -> None:
    try:
        if "\0" in text.decode():
            raise BadPacket(MALFORMED)
    except UnicodeDecodeError:
        raise BadPacket(MALFORMED) from None
    if is_topic and (b"+" in text or b"#" in text):
        raise BadPacket(names.TOPIC_NAME_INVALID)


def take_id(body: bytes, at: int) -> int:
    packet_id = int.from_bytes(take(body, at, 2), "big")
    if packet_id == 0:
        raise BadPacket(PROTOCOL_ERROR)
    return packet_id


def read_publish(head: int, body: bytes, limits: Limits) -> dict[str, object]:
    topic = take_string(body, 0)
    check_text(topic, is_topic=True)
    at, packet_id = 2 + len(topic), 0
    if head & 6:
        packet_id, at = take_id(body, at), at + 2
    encoded, found = b"", dict[int, bytes]()
    if limits.version == 5:
        at, size = take_variable(body, at, True, BadPacket(MALFORMED))
        encoded = take(body, at, size)
        at += size
        found = read_properties(encoded, limits)
    if not topic and ALIAS not in found:
        raise BadPacket(PROTOCOL_ERROR if limits.version == 5 else MALFORMED)
    present = sum(BITS[kind] for kind in found)
    return {
        "head": head,
        "packet_id": packet_id,
        "reason": 0,
        "topic": topic,
        "alias": int.from_bytes(found.get(ALIAS, b""), "big"),
        "properties": encoded,
        "payload": body[at:],
        "present": present | (names.IS_TEXT if found.get(FORMAT) == b"\1" else 0),
        "found": {kind: value for kind, value in found.items() if kind not in (USER, FORMAT)},
    }


def read_properties(encoded: bytes, limits: Limits) -> dict[int, bytes]:
    """The value of each that may occur once; of user properties only that there are some."""
    found: dict[int, bytes] = {}
    at = 0
    while at < len(encoded):
        kind, at = encoded[at], at + 1
        if kind == USER:
            at = pair_end(encoded, at)
            found[USER] = b""
            continue
        if kind == SUBSCRIPTION:
            raise BadPacket(PROTOCOL_ERROR)
        if kind not in BITS:
            raise BadPacket(MALFORMED)
        if kind in found:
            raise BadPacket(PROTOCOL_ERROR)
        found[kind] = value = single_value(kind, encoded, at, limits)
        at += len(value) + (2 if kind in (CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION) else 0)
    return found


def single_value(kind: int, encoded: bytes, at: int, limits: Limits) -> bytes:
    if kind in (CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION):
        value = take_string(encoded, at)
        if kind != CORRELATION:
            check_text(value, kind == RESPONSE_TOPIC)
        if kind == RESPONSE_TOPIC and not value:
            raise BadPacket(names.TOPIC_NAME_INVALID)
        return value
    value = take(encoded, at, {FORMAT: 1, EXPIRY: 4, ALIAS: 2}[kind])
    if kind == FORMAT and value > b"\1":
        raise BadPacket(PROTOCOL_ERROR)
    if kind == ALIAS and not 0 < int.from_bytes(value, "big") <= limits.alias:
        raise BadPacket(names.TOPIC_ALIAS_INVALID)
    return value


def pair_end(encoded: bytes, at: int) -> int:
    for _ in range(2):
        text = take_string(encoded, at)
        check_text(text)
        at += 2 + len(text)
    return at


def read_acknowledgement(head: int, body: bytes, limits: Limits) -> dict[str, object]:
    if limits.version == 4 and len(body) != 2:
        raise BadPacket(MALFORMED)
    packet_id, reason, encoded = take_id(body, 0), 0, b""
    if len(body) > 2:
        reason = body[2]
        if reason not in REASONS[head >> 4]:
            raise BadPacket(PROTOCOL_ERROR)
    if len(body) > 3:
        at, size = take_variable(body, 3, True, BadPacket(MALFORMED))
        if at + size != len(body):
            raise BadPacket(MALFORMED)
        encoded = body[at:]
        check_acknowledgement_properties(encoded)
    row = dict.fromkeys(("alias", "present"), 0)
    return row | {
        "head": head,
        "packet_id": packet_id,
        "reason": reason,
        "topic": b"",
        "properties": encoded,
        "payload": b"",
        "found": {},
    }


def check_acknowledgement_properties(encoded: bytes) -> None:
    at, has_string = 0, False
    while at < len(encoded):
        kind, at = encoded[at], at + 1
        if kind == USER:
            at = pair_end(encoded, at)
        elif kind == REASON_STRING:
            if has_string:
                raise BadPacket(PROTOCOL_ERROR)
            has_string = True
            text = take_string(encoded, at)
            check_text(text)
            at += 2 + len(text)
        else:
            raise BadPacket(MALFORMED)
