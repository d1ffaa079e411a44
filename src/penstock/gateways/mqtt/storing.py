"""Which messages of a publish are stored for sessions that outlive their connection."""

from __future__ import annotations

from array import array
from typing import TypeAlias

from penstock.broker.sessions.targets import RETAIN, Targets
from penstock.gateways.mqtt.router import Receiver
from penstock.gateways.mqtt.session import Session

_QOS, _RETAIN = 0x06, 0x01


def _flag_table(qos: int, keeps_retain: bool) -> bytes:
    """What the first byte of a packet makes of the flags that are stored with a message."""
    return bytes([min(head >> 1 & 3, qos) | (RETAIN if keeps_retain and head & _RETAIN else 0) for head in range(256)])


_FLAGS = {(qos, keeps): _flag_table(qos, keeps) for qos in range(3) for keeps in (False, True)}

Stored: TypeAlias = "dict[Session, tuple[array[int], bytes]]"
"""rows, rising, and the flags of each"""


def store(heads: bytes, receiver: Receiver, rows: array[int], layers: list[Stored]) -> None:
    """Rows with QoS, if that matters to the receiver. A session that gets a row once more, as a member of a shared
    subscription beside a plain one, gets it in another layer."""
    if not receiver.qos:
        return
    mine = array("i", [row for row in rows if heads[row] & _QOS])
    if not mine:
        return
    flags = bytes([heads[row] for row in mine]).translate(_FLAGS[receiver.qos, receiver.retain_as_published])
    for layer in layers:
        before = layer.get(receiver.session)
        if before is None or set(before[0]).isdisjoint(mine):
            layer[receiver.session] = (mine, flags) if before is None else _merged(*before, mine, flags)
            return
    layers.append({receiver.session: (mine, flags)})


def _merged(rows: array[int], flags: bytes, more_rows: array[int], more_flags: bytes) -> tuple[array[int], bytes]:
    pairs = sorted(zip([*rows, *more_rows], flags + more_flags, strict=True))
    return array("i", [row for row, _ in pairs]), bytes([flag for _, flag in pairs])


def targets_of(layer: Stored) -> Targets:
    targets = Targets()
    for session, (rows, flags) in layer.items():
        assert session.stored is not None
        targets.add(session.stored, rows, flags)
    return targets
