"""Whatever peers send, split and interleaved in any way, and whatever the door does: nothing is lost, doubled or out of
order, and both reactors say the same."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.wire import (
    Door,
    ForeignPeer,
    MakeReactor,
    Peer,
    SocketPeer,
    is_ready,
    makers,
    packet,
    reactors,
    whole_packets,
)

from penstock.gateways.wire.reactor import ReactorOptions

# Small enough that packets are longer than what is kept, received in a turn, or in the arena.
OPTIONS = ReactorOptions(
    max_connections=8,
    arena_bytes=1 << 16,
    per_turn_bytes=64,
    max_kept_bytes=64,
    max_packet_bytes=1024,
    high_water_bytes=2000,
)
CONNECTIONS = 4

whos = st.integers(0, CONNECTIONS - 1)
bodies = st.one_of(st.binary(max_size=20), st.binary(max_size=90), st.integers(100, 1000).map(bytes))
steps = st.one_of(
    st.tuples(
        st.just("send"), whos, st.lists(bodies, min_size=1, max_size=5).map(lambda some: b"".join(map(packet, some)))
    ),
    st.tuples(st.just("trickle"), whos, bodies.map(packet)),
    st.tuples(st.just("turn"), st.sampled_from([1, 2, 1 << 30]), st.booleans()),
    st.tuples(st.just("turn"), st.just(1 << 30), st.just(True)),
    st.tuples(st.sampled_from(["park", "resume", "read", "finish", "close", "end", "abort"]), whos, st.none()),
    st.tuples(st.just("write"), whos, st.binary(min_size=1, max_size=200)),
    st.tuples(st.just("write_all"), st.none(), st.binary(min_size=1, max_size=9)),
    st.tuples(st.just("again"), whos, st.booleans()),
)


@dataclass
class Fate:
    """Of one connection."""

    peer: Peer
    written: bytearray
    is_over: bool = False
    """its end is the reactor's or the door's"""
    was_closed: bool = False
    is_aborted: bool = False


class Walk:
    def __init__(self, make: MakeReactor) -> None:
        self.reactor = make(OPTIONS)
        self.door = Door(self.reactor)
        self.fates: list[Fate] = []
        self.now: dict[int, Fate] = {}
        self.unfinished: dict[int, bytes] = {}
        for who in range(CONNECTIONS):
            self._begin(who, who == CONNECTIONS - 1)

    def _begin(self, who: int, is_foreign: bool) -> None:
        peer: Peer = ForeignPeer(self.reactor) if is_foreign else SocketPeer(self.reactor, buffer_bytes=4096)
        self.now[who] = Fate(peer, bytearray())
        self.fates.append(self.now[who])

    def step(self, what: str, who: object, value: object) -> None:
        if what == "turn":
            assert isinstance(who, int)
            self.door.limit = who
            self.door.turn(takes=bool(value))
            self._check()
        elif what == "write_all":
            assert isinstance(value, bytes)
            self._write_all(value)
        else:
            assert isinstance(who, int)
            self._of_one(what, who, value)

    def _of_one(self, what: str, who: int, value: object) -> None:
        fate = self.now[who]
        peer, reactor = fate.peer, self.reactor
        if what == "again" and fate.is_over:
            self._begin(who, bool(value))
        if what in ("send", "trickle") and not fate.was_closed and not fate.is_over:
            assert isinstance(value, bytes)
            for piece in [value] if what == "send" else [value[at : at + 1] for at in range(len(value))]:
                peer.send(piece)
        elif what == "write" and isinstance(value, bytes):
            reactor.write(peer.slot, peer.generation, value)
            if not fate.is_over:
                fate.written += value
            if len(value) % 2:
                reactor.flush()
        elif what == "park":
            reactor.park(peer.slot, peer.generation)
        elif what == "resume":
            reactor.resume(peer.slot, peer.generation)
        elif what == "read" and not fate.was_closed:
            peer.read()
        elif what in ("finish", "close"):
            peer.finish() if what == "finish" else peer.close()
            fate.was_closed = fate.was_closed or what == "close"
        elif what in ("end", "abort"):
            fate.is_aborted = fate.is_aborted or (what == "abort" and not fate.is_over)
            reactor.end(peer.slot, peer.generation) if what == "end" else reactor.abort(peer.slot, peer.generation)
            fate.is_over = True

    def _write_all(self, value: bytes) -> None:
        open_ones = [fate for fate in self.now.values() if not fate.is_over]
        count = len(open_ones)
        slots, generations = [f.peer.slot for f in open_ones], [f.peer.generation for f in open_ones]
        self.reactor.write_many(
            array("i", slots), array("i", generations), value, array("i", [0] * count), array("i", [len(value)] * count)
        )
        for fate in open_ones:
            fate.written += value

    def _check(self) -> None:
        """What holds at any time."""
        for fate in self.fates:
            seen = self.door.of(fate.peer)
            assert fate.peer.sent.startswith(seen.taken)
            assert seen.lost <= 1
            if seen.lost:
                fate.is_over = True

    def finish(self) -> list[tuple[bytes, bytes, int]]:
        """What was taken of each connection, what it got, and how often it was told as lost, in the end."""
        reactor, door = self.reactor, self.door
        door.limit = 1 << 30
        for fate in self.now.values():
            reactor.resume(fate.peer.slot, fate.peer.generation)
        reactor.flush()
        before, moved = -2, -1
        while moved != before or is_ready(reactor):
            for fate in self.fates:
                if not fate.was_closed:
                    fate.peer.push()
                    fate.peer.read()
            door.turn()
            before, moved = moved, sum(len(fate.peer.received) + len(fate.peer.sent) for fate in self.fates)
        door.settle()
        self._check()
        found = [self._outcome(fate) for fate in self.fates]
        assert reactor.connections == sum(not fate.is_over for fate in self.fates)
        for fate in self.fates:
            fate.peer.close()
        reactor.close()
        return found

    def _outcome(self, fate: Fate) -> tuple[bytes, bytes, int]:
        peer, seen = fate.peer, self.door.of(fate.peer)
        assert seen.lost == fate.is_over
        whole = bytes(peer.sent[: whole_packets(bytes(peer.sent))])
        if not fate.is_over:
            assert seen.taken == whole
            assert self.reactor.backlog(peer.slot, peer.generation) == 0
        if not fate.was_closed and not fate.is_aborted:
            assert peer.received == fate.written
        assert fate.written.startswith(peer.received)
        assert b"".join(map(packet, seen.packets)) == seen.taken
        return bytes(seen.taken), bytes(peer.received), seen.lost


def walked(make: MakeReactor, script: list[tuple[str, object, object]]) -> list[tuple[bytes, bytes, int]]:
    walk = Walk(make)
    try:
        for what, who, value in script:
            walk.step(what, who, value)
        return walk.finish()
    finally:
        for fate in walk.fates:
            fate.peer.close() if isinstance(fate.peer, SocketPeer) else None
        walk.reactor.close()


@given(script=st.lists(steps, max_size=60))
@settings(deadline=None, max_examples=max(300, settings().max_examples))
def test_nothing_is_lost_doubled_or_out_of_order_whatever_happens(script: list[tuple[str, object, object]]) -> None:
    outcomes = [walked(make, script) for make in makers()]
    assert all(outcome == outcomes[0] for outcome in outcomes)


@pytest.mark.parametrize("make", reactors())
def test_packets_cut_anywhere_come_whole_and_in_order(make: MakeReactor) -> None:
    packets = [bytes([size % 251]) * size for size in (0, 1, 63, 64, 65, 127, 128, 500, 1000, 3)]
    data = b"".join(map(packet, packets))
    for size in (1, 2, 3, 7, 64, 65, 1000, len(data)):
        reactor = make(OPTIONS)
        door, peer = Door(reactor), SocketPeer(reactor)
        for at in range(0, len(data), size):
            peer.send(data[at : at + size])
            door.turn()
        door.settle()
        assert door.of(peer).packets == packets
        peer.close()
        reactor.close()
