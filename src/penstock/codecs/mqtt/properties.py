"""The properties of MQTT 5: one table, one value with a field for each, and their bytes."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from penstock.codecs.mqtt.errors import MalformedPacket, ProtocolError
from penstock.codecs.mqtt.kinds import MAX_REMAINING_BYTES, PacketType
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.codecs.mqtt.text import check_received_topic, check_topic
from penstock.codecs.mqtt.wire import Reader, binary_bytes, text_bytes, unsigned_bytes, varint_bytes
from penstock.core.errors import InvalidArgument

WILL = 0
"""The will in a CONNECT has properties of its own. No packet has type 0, so it stands for the will beside the types."""

Pair = tuple[str, str]
Value = int | bool | str | bytes | Pair


@dataclass(frozen=True, slots=True, repr=False)
class Properties:
    """What a packet says beside its fields; None where it says nothing, which is not the same as 0 or empty. Which
    packet may say what is in `TABLE`; user properties keep their order and may repeat a name."""

    payload_format_indicator: int | None = None
    message_expiry_interval_s: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    subscription_identifiers: tuple[int, ...] = ()
    session_expiry_interval_s: int | None = None
    assigned_client_identifier: str | None = None
    server_keep_alive_s: int | None = None
    authentication_method: str | None = None
    authentication_data: bytes | None = None
    request_problem_information: bool | None = None
    will_delay_interval_s: int | None = None
    request_response_information: bool | None = None
    response_information: str | None = None
    server_reference: str | None = None
    reason_string: str | None = None
    receive_maximum: int | None = None
    topic_alias_maximum: int | None = None
    topic_alias: int | None = None
    maximum_qos: int | None = None
    retain_available: bool | None = None
    user_properties: tuple[Pair, ...] = ()
    maximum_packet_bytes: int | None = None
    wildcard_subscription_available: bool | None = None
    subscription_identifiers_available: bool | None = None
    shared_subscription_available: bool | None = None

    def __repr__(self) -> str:
        said = {row.name: value for row in TABLE if (value := getattr(self, row.name)) not in (None, ())}
        return f"Properties({', '.join(f'{name}={value!r}' for name, value in said.items())})"

    def user_values(self, name: str) -> list[str]:
        """All values under one name, in order."""
        return [value for key, value in self.user_properties if key == name]


NO_PROPERTIES = Properties()


class Kind(enum.Enum):
    BYTE = enum.auto()
    FLAG = enum.auto()
    TWO_BYTES = enum.auto()
    FOUR_BYTES = enum.auto()
    VARINT = enum.auto()
    TEXT = enum.auto()
    TOPIC = enum.auto()
    BINARY = enum.auto()
    PAIR = enum.auto()


class Property(NamedTuple):
    id: int
    name: str
    """the field of `Properties`"""
    kind: Kind
    packets: frozenset[int]
    repeatable_in: frozenset[int] = frozenset()
    is_tuple: bool = False
    least: int = 0
    most: int = MAX_REMAINING_BYTES
    """bounds of a BYTE, TWO_BYTES or VARINT beside those of its size"""


_T = PacketType
_PUBLISH_WILL = frozenset({_T.PUBLISH, WILL})
_CONNACK = frozenset({_T.CONNACK})
_CONNECT = frozenset({_T.CONNECT})
_CONNECT_CONNACK = frozenset({_T.CONNECT, _T.CONNACK})
_AUTH = frozenset({_T.CONNECT, _T.CONNACK, _T.AUTH})
_ANSWERS = frozenset(
    {_T.CONNACK, _T.PUBACK, _T.PUBREC, _T.PUBREL, _T.PUBCOMP, _T.SUBACK, _T.UNSUBACK, _T.DISCONNECT, _T.AUTH}
)
_ALL = _ANSWERS | {_T.CONNECT, _T.PUBLISH, WILL, _T.SUBSCRIBE, _T.UNSUBSCRIBE}

TABLE: tuple[Property, ...] = (
    Property(0x01, "payload_format_indicator", Kind.BYTE, _PUBLISH_WILL, most=1),
    Property(0x02, "message_expiry_interval_s", Kind.FOUR_BYTES, _PUBLISH_WILL),
    Property(0x03, "content_type", Kind.TEXT, _PUBLISH_WILL),
    Property(0x08, "response_topic", Kind.TOPIC, _PUBLISH_WILL),
    Property(0x09, "correlation_data", Kind.BINARY, _PUBLISH_WILL),
    Property(
        0x0B, "subscription_identifiers", Kind.VARINT, frozenset({_T.PUBLISH, _T.SUBSCRIBE}),
        repeatable_in=frozenset({_T.PUBLISH}), is_tuple=True, least=1,
    ),
    Property(0x11, "session_expiry_interval_s", Kind.FOUR_BYTES, frozenset({_T.CONNECT, _T.CONNACK, _T.DISCONNECT})),
    Property(0x12, "assigned_client_identifier", Kind.TEXT, _CONNACK),
    Property(0x13, "server_keep_alive_s", Kind.TWO_BYTES, _CONNACK),
    Property(0x15, "authentication_method", Kind.TEXT, _AUTH),
    Property(0x16, "authentication_data", Kind.BINARY, _AUTH),
    Property(0x17, "request_problem_information", Kind.FLAG, _CONNECT),
    Property(0x18, "will_delay_interval_s", Kind.FOUR_BYTES, frozenset({WILL})),
    Property(0x19, "request_response_information", Kind.FLAG, _CONNECT),
    Property(0x1A, "response_information", Kind.TEXT, _CONNACK),
    Property(0x1C, "server_reference", Kind.TEXT, frozenset({_T.CONNACK, _T.DISCONNECT})),
    Property(0x1F, "reason_string", Kind.TEXT, _ANSWERS),
    Property(0x21, "receive_maximum", Kind.TWO_BYTES, _CONNECT_CONNACK, least=1),
    Property(0x22, "topic_alias_maximum", Kind.TWO_BYTES, _CONNECT_CONNACK),
    Property(0x23, "topic_alias", Kind.TWO_BYTES, frozenset({_T.PUBLISH}), least=1),
    Property(0x24, "maximum_qos", Kind.BYTE, _CONNACK, most=1),
    Property(0x25, "retain_available", Kind.FLAG, _CONNACK),
    Property(0x26, "user_properties", Kind.PAIR, _ALL, repeatable_in=_ALL, is_tuple=True),
    Property(0x27, "maximum_packet_bytes", Kind.FOUR_BYTES, _CONNECT_CONNACK, least=1),
    Property(0x28, "wildcard_subscription_available", Kind.FLAG, _CONNACK),
    Property(0x29, "subscription_identifiers_available", Kind.FLAG, _CONNACK),
    Property(0x2A, "shared_subscription_available", Kind.FLAG, _CONNACK),
)  # fmt: skip

BY_ID: Mapping[int, Property] = {row.id: row for row in TABLE}
_SIZES = {Kind.BYTE: 1, Kind.FLAG: 1, Kind.TWO_BYTES: 2, Kind.FOUR_BYTES: 4}


def read_properties(reader: Reader, packet: int) -> Properties:
    """Of a packet type, or of WILL. Reads their length and exactly so many bytes."""
    section = reader.section(reader.varint("the length of properties"), "the properties")
    if not section.remaining_bytes:
        return NO_PROPERTIES
    values: dict[str, list[Value]] = {}
    while section.remaining_bytes:
        row = _row(section.varint("a property's id"), packet)
        if row.name in values and packet not in row.repeatable_in:
            raise ProtocolError(f"{row.name} is given twice")
        values.setdefault(row.name, []).append(_read_value(section, row))
    # The table says which type each field gets.
    fields: dict[str, Any] = {
        row.name: tuple(values[row.name]) if row.is_tuple else values[row.name][0]
        for row in TABLE
        if row.name in values
    }
    return Properties(**fields)


def _row(id: int, packet: int) -> Property:
    row = BY_ID.get(id)
    if row is None:
        raise MalformedPacket(f"there is no property 0x{id:02X}")
    if packet not in row.packets:
        raise MalformedPacket(f"{row.name} is not a property of {_place(packet)}")
    return row


def _place(packet: int) -> str:
    return PacketType(packet).name if packet else "a will"


def _read_value(reader: Reader, row: Property) -> Value:
    if row.kind is Kind.PAIR:
        return reader.text("a user property's name"), reader.text("a user property's value")
    if row.kind is Kind.BINARY:
        return reader.binary(row.name)
    if row.kind in (Kind.TEXT, Kind.TOPIC):
        text = reader.text(row.name)
        if row.kind is Kind.TOPIC:
            check_received_topic(text)
        return text
    number = reader.varint(row.name) if row.kind is Kind.VARINT else reader.unsigned(_SIZES[row.kind], row.name)
    if fault := _number_fault(number, row):
        is_alias = row.name == "topic_alias"
        raise ProtocolError(fault, ReasonCode.TOPIC_ALIAS_INVALID if is_alias else ReasonCode.PROTOCOL_ERROR)
    return bool(number) if row.kind is Kind.FLAG else number


def _number_fault(number: int, row: Property) -> str | None:
    if number < row.least:
        return f"{row.name} must not be {number}"
    if (row.kind is Kind.BYTE and number > row.most) or (row.kind is Kind.FLAG and number > 1):
        return f"{row.name} is 0 or 1, not {number}"
    return None


def properties_bytes(properties: Properties, packet: int) -> bytes:
    """With their length before them, in the order of their ids. InvalidArgument if the packet cannot have them."""
    if properties is NO_PROPERTIES:
        return b"\0"
    made = bytearray()
    for row in TABLE:
        value = getattr(properties, row.name)
        if value is None or value == ():
            continue
        if packet not in row.packets:
            raise InvalidArgument(f"{row.name} is not a property of {_place(packet)}: leave it out")
        if row.is_tuple and len(value) > 1 and packet not in row.repeatable_in:
            raise InvalidArgument(f"{_place(packet)} has one of {row.name} at most, not {len(value)}")
        for item in value if row.is_tuple else (value,):
            made.append(row.id)
            made += _value_bytes(item, row)
    return varint_bytes(len(made)) + made


def _value_bytes(value: Any, row: Property) -> bytes:
    if row.kind is Kind.PAIR:
        name, text = value
        return text_bytes(name, "a user property's name") + text_bytes(text, "a user property's value")
    if row.kind is Kind.BINARY:
        return binary_bytes(value, row.name)
    if row.kind in (Kind.TEXT, Kind.TOPIC):
        if row.kind is Kind.TOPIC:
            check_topic(value)
        return text_bytes(value, row.name)
    if fault := _number_fault(value, row):
        raise InvalidArgument(fault)
    return varint_bytes(value) if row.kind is Kind.VARINT else unsigned_bytes(value, _SIZES[row.kind], row.name)
