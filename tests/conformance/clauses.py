"""The numbered statements of both specifications, and why some of them have no test here."""

from __future__ import annotations

from typing import NamedTuple

from tests.conformance.scene import V3, V5

from penstock.codecs.mqtt.kinds import Version


class Clause(NamedTuple):
    version: Version
    section: str
    number: int

    def __str__(self) -> str:
        return f"[MQTT-{self.section}-{self.number}] of {self.version!s}"


# How many statements a section has, counted from 1; section 2.2.1 of 5.0 begins with 2.
_STATEMENTS_3_1_1 = {
    "1.5.3": 3, "2.2.2": 2, "2.3.1": 7, "3.1.0": 2, "3.1.2": 24, "3.1.3": 11, "3.1.4": 5, "3.2.0": 1, "3.2.2": 6,
    "3.3.1": 12, "3.3.2": 3, "3.3.4": 1, "3.3.5": 2, "3.6.1": 1, "3.8.1": 1, "3.8.3": 4, "3.8.4": 6, "3.9.3": 2,
    "3.10.1": 1, "3.10.3": 2, "3.10.4": 6, "3.12.4": 1, "3.14.1": 1, "3.14.4": 3, "4.1.0": 2, "4.3.1": 1, "4.3.2": 2,
    "4.3.3": 2, "4.4.0": 1, "4.5.0": 2, "4.6.0": 6, "4.7.1": 3, "4.7.2": 1, "4.7.3": 4, "4.8.0": 2, "6.0.0": 4,
    "7.0.0": 2, "7.1.1": 1, "7.1.2": 1,
}  # fmt: skip
_STATEMENTS_5 = {
    "1.5.4": 3, "1.5.5": 1, "1.5.7": 1, "2.1.3": 1, "2.2.1": 6, "2.2.2": 1, "3.1.0": 2, "3.1.2": 30, "3.1.3": 12,
    "3.1.4": 6, "3.2.0": 2, "3.2.2": 22, "3.3.1": 13, "3.3.2": 20, "3.3.4": 10, "3.4.2": 3, "3.5.2": 3, "3.6.1": 1,
    "3.6.2": 3, "3.7.2": 3, "3.8.1": 1, "3.8.3": 5, "3.8.4": 8, "3.9.2": 2, "3.9.3": 2, "3.10.1": 1, "3.10.3": 2,
    "3.10.4": 6, "3.11.2": 2, "3.11.3": 2, "3.12.4": 1, "3.14.0": 1, "3.14.1": 1, "3.14.2": 4, "3.14.4": 3,
    "3.15.1": 1, "3.15.2": 3, "4.1.0": 2, "4.2": 1, "4.3.1": 1, "4.3.2": 5, "4.3.3": 13, "4.4.0": 2, "4.5.0": 2,
    "4.6.0": 6, "4.7.0": 1, "4.7.1": 2, "4.7.2": 1, "4.7.3": 4, "4.8.2": 6, "4.9.0": 3, "4.12.0": 7, "4.12.1": 2,
    "4.13.1": 1, "4.13.2": 1, "6.0.0": 4,
}  # fmt: skip

ALL = frozenset(
    Clause(version, section, number + 1)
    for version, statements in ((V3, _STATEMENTS_3_1_1), (V5, _STATEMENTS_5))
    for section, count in statements.items()
    for number in range(count)
) - {Clause(V5, "2.2.1", 1)}

_CLIENT = "binds the client"
_WEBSOCKET = "is about the WebSocket transport, which has its own tests"
_FREE = "leaves the server free, so that nothing can be seen"

UNTESTED: dict[Clause, str] = {
    Clause(V3, "2.3.1", 2): _CLIENT,
    Clause(V3, "2.3.1", 3): _CLIENT,
    Clause(V3, "3.8.3", 2): _FREE,
    Clause(V3, "4.5.0", 2): _CLIENT,
    Clause(V3, "4.8.0", 2): "a transient error cannot be made from outside",
    Clause(V3, "7.0.0", 1): "is about servers that connect to servers",
    Clause(V3, "7.0.0", 2): _FREE,
    Clause(V3, "7.1.2", 1): _CLIENT,
    Clause(V5, "3.2.2", 4): _CLIENT,
    Clause(V5, "3.2.2", 5): _CLIENT,
    Clause(V5, "4.5.0", 2): _CLIENT,
    Clause(V5, "3.15.2", 2): "no AUTH of the server carries a reason string or user properties",
    Clause(V5, "3.15.2", 3): "no AUTH of the server carries a reason string or user properties",
    Clause(V5, "4.8.2", 5): "a message of QoS 1 may go to another member or wait for the same one",
    **{Clause(version, "6.0.0", number): _WEBSOCKET for version in (V3, V5) for number in (1, 2, 3, 4)},
}
