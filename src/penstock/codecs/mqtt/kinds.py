"""The numbers that name versions, packet types and sides of a connection."""

from __future__ import annotations

import enum

MAX_REMAINING_BYTES = 268_435_455
MAX_PACKET_BYTES = MAX_REMAINING_BYTES + 5
"""the longest packet there can be, with its fixed header"""
MAX_STRING_BYTES = 65_535
MAX_PACKET_ID = 65_535


class Version(enum.IntEnum):
    """The protocol level in CONNECT."""

    V3_1_1 = 4
    V5 = 5

    def __str__(self) -> str:
        return "3.1.1" if self is Version.V3_1_1 else "5.0"


class PacketType(enum.IntEnum):
    """The upper four bits of a packet's first byte."""

    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15


class Sender(enum.Enum):
    CLIENT = "client"
    SERVER = "server"
