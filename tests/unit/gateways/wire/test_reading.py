from __future__ import annotations

from array import array
from collections.abc import Callable

import pytest
from tests.support.wire import Door, SocketPeer, is_ready, packet

from penstock.core.errors import InvalidArgument
from penstock.gateways.wire.reactor import Reactor, ReactorOptions

Open = Callable[..., Reactor]
Connect = Callable[..., SocketPeer]


def regions(reactor: Reactor) -> list[bytes]:
    return [bytes(reactor.arena[a:b]) for a, b in zip(reactor.starts, reactor.stops, strict=True)]


def take(reactor: Reactor, *rests: int, again: bytes | None = None) -> None:
    """All of each region but so many bytes."""
    reactor.taken(array("i", [stop - rest for stop, rest in zip(reactor.stops, rests, strict=True)]), again)


def test_there_is_something_to_do_only_while_there_is(reactor: Reactor, connect: Connect) -> None:
    peer = connect()
    assert not is_ready(reactor)
    assert not reactor.turn()
    peer.send(b"abc")
    assert is_ready(reactor)
    assert reactor.turn()
    assert (regions(reactor), list(reactor.slots)) == ([b"abc"], [peer.slot])
    take(reactor, 0)
    assert not is_ready(reactor)
    assert reactor.kept_bytes == 0
    found = reactor.counters()
    assert (found.turns, found.empty_turns, found.receives, found.received_bytes) == (2, 1, 1, 3)


def test_what_is_not_taken_stands_in_front_of_what_comes(reactor: Reactor, connect: Connect) -> None:
    peer = connect()
    peer.send(b"abcdef")
    reactor.turn()
    take(reactor, 2)
    assert not is_ready(reactor)
    assert reactor.kept_bytes == 2
    peer.send(b"gh")
    reactor.turn()
    assert regions(reactor) == [b"efgh"]
    take(reactor, 0)
    assert reactor.kept_bytes == 0


def test_again_offers_the_rest_without_new_bytes(reactor: Reactor, connect: Connect) -> None:
    peer = connect()
    peer.send(b"abcdef")
    reactor.turn()
    take(reactor, 4, again=b"\1")
    peer.send(b"gh")
    assert is_ready(reactor)
    reactor.turn()
    assert regions(reactor) == [b"cdef"]
    take(reactor, 1, again=b"\0")
    reactor.turn()
    assert regions(reactor) == [b"fgh"]
    take(reactor, 0, again=b"\1")
    assert not is_ready(reactor)


def test_regions_that_nobody_took_are_offered_again(reactor: Reactor, connect: Connect) -> None:
    peer = connect()
    peer.send(b"abc")
    reactor.turn()
    reactor.turn()
    assert regions(reactor) == [b"abc"]
    take(reactor, 1)
    peer.send(b"d")
    reactor.turn()
    assert regions(reactor) == [b"cd"]


def test_bytes_that_were_read_elsewhere_come_first(reactor: Reactor, connect: Connect) -> None:
    peer = connect(received=b"CONN")
    peer.send(b"ECT")
    reactor.turn()
    assert regions(reactor) == [b"CONN"]
    take(reactor, 4)
    reactor.turn()
    assert regions(reactor) == [b"CONNECT"]
    assert reactor.received_bytes[peer.slot] == 7


def test_a_parked_connection_is_not_read_and_nobody_is_woken_for_it(reactor: Reactor, connect: Connect) -> None:
    door, peer = Door(reactor), connect(buffer_bytes=4096)
    peer.send(b"abcdef")
    reactor.turn()
    reactor.park(peer.slot, peer.generation)
    take(reactor, 3)
    for _ in range(100):
        peer.send(bytes(1000))
    door.settle()
    before = reactor.received_bytes[peer.slot]
    assert not reactor.turn()
    assert before == reactor.received_bytes[peer.slot] == 6
    reactor.resume(peer.slot, peer.generation)
    assert reactor.turn()
    assert regions(reactor) == [b"def"]
    take(reactor, 0)
    assert reactor.turn()
    assert reactor.received_bytes[peer.slot] > 6


def test_one_that_is_parked_or_aborted_after_its_region_was_taken_is_not_offered_again(
    reactor: Reactor, connect: Connect
) -> None:
    parked, aborted = connect(), connect()
    for peer in (parked, aborted):
        peer.send(b"abcdef")
    reactor.turn()
    take(reactor, 3, 3, again=b"\1\1")
    reactor.park(parked.slot, parked.generation)
    reactor.abort(aborted.slot, aborted.generation)
    reactor.turn()
    assert (list(reactor.slots), list(reactor.lost)) == ([], [aborted.slot])
    assert not reactor.turn()
    reactor.resume(parked.slot, parked.generation)
    reactor.turn()
    assert regions(reactor) == [b"def"]


def test_one_that_is_resumed_before_its_region_is_taken_is_offered_the_rest(reactor: Reactor, connect: Connect) -> None:
    peer = connect()
    peer.send(b"abcdef")
    reactor.turn()
    reactor.park(peer.slot, peer.generation)
    reactor.resume(peer.slot, peer.generation)
    take(reactor, 3)
    assert reactor.turn()
    assert regions(reactor) == [b"def"]


def test_the_end_of_a_parked_connection_is_seen_when_it_is_resumed(reactor: Reactor, connect: Connect) -> None:
    door, peer = Door(reactor), connect()
    reactor.park(peer.slot, peer.generation)
    peer.send(packet(b"last"))
    peer.close()
    door.settle()
    assert door.of(peer).lost == 0
    reactor.resume(peer.slot, peer.generation)
    door.settle()
    assert (door.of(peer).packets, door.of(peer).lost) == ([b"last"], 1)


def test_a_long_packet_is_offered_once_and_whole(open_with: Open, connect: Connect) -> None:
    reactor = open_with(max_packet_bytes=1 << 20)
    door, peer = Door(reactor), connect(reactor)
    body = bytes(range(256)) * 3000
    offered = 0
    peer.send(packet(body) + packet(b"behind"))
    while len(door.of(peer).packets) < 2:
        peer.push()
        door.turn()
        offered += len(reactor.slots)
    assert door.of(peer).packets == [body, b"behind"]
    assert offered <= 4
    assert reactor.kept_bytes == 0


def test_a_packet_beyond_the_arena_is_offered_whole(open_with: Open, connect: Connect) -> None:
    reactor = open_with(max_packet_bytes=4 << 20, arena_bytes=1 << 16)
    door, peer = Door(reactor), connect(reactor)
    for body in (bytes(3 << 20), b"small", bytes(4_000_000)):
        peer.send(packet(body))
        while not door.of(peer).packets:
            peer.push()
            door.turn()
        assert door.of(peer).packets.pop() == body


def test_one_that_keeps_too_much_without_a_packet_to_expect_is_told_and_not_read(
    open_with: Open, connect: Connect
) -> None:
    reactor = open_with(max_kept_bytes=100, per_turn_bytes=200)
    peer = connect(reactor)
    peer.send(bytes(300))
    reactor.turn()
    take(reactor, 200)
    assert reactor.turn()
    assert list(reactor.overfull) == [peer.slot]
    assert not reactor.turn()
    assert not is_ready(reactor)
    reactor.write(peer.slot, peer.generation, b"too much")
    reactor.end(peer.slot, peer.generation)
    reactor.turn()
    peer.read()
    assert (bytes(peer.received), peer.is_ended) == (b"too much", True)
    assert reactor.kept_bytes == 0


def test_of_those_who_want_more_than_is_left_one_goes_at_a_time_the_one_that_holds_most_first(
    open_with: Open, connect: Connect
) -> None:
    reactor = open_with(max_pieces_bytes=500_000, per_turn_bytes=64 << 10)
    door, peers = Door(reactor), [connect(reactor) for _ in range(4)]
    for peer, size in zip(peers, (150_000, 100_000, 120_000, 50_000), strict=True):
        peer.send(packet(bytes(200_000))[:size])
    door.settle()
    told: list[int] = []
    for peer in peers:
        peer.send(bytes(49_000))
    for _ in range(20):
        reactor.turn()
        assert len(reactor.overfull) <= 1
        for slot in reactor.overfull:
            told.append(slot)
            reactor.abort(slot, reactor.generation[slot])
        reactor.taken(reactor.starts)
    # The first one found room for all it sent, and wants nothing.
    assert told == [peers[2].slot]
    assert reactor.kept_bytes == 150_000 + 100_000 + 50_000 + 3 * 49_000


def test_packets_in_pieces_have_a_limit_together(open_with: Open, connect: Connect) -> None:
    reactor = open_with(max_pieces_bytes=300_000)
    door, first, second = Door(reactor), connect(reactor), connect(reactor)
    told: list[int] = []
    for peer in (first, second):
        peer.send(packet(bytes(200_000))[:-1])
        for _ in range(20):
            peer.push()
            door.turn()
            told += reactor.overfull
    assert told == [second.slot]
    assert reactor.kept_bytes <= 300_000
    reactor.abort(second.slot, second.generation)
    first.send(b"\0")
    door.settle()
    assert door.of(first).packets == [bytes(200_000)]


def test_a_flood_keeps_nobody_waiting(reactor: Reactor, connect: Connect) -> None:
    flood, quiet = connect(), [connect() for _ in range(100)]
    flood.send(bytes(1 << 20))
    for peer in quiet:
        peer.send(b"x")
    reactor.turn()
    assert {peer.slot for peer in quiet} < set(reactor.slots)
    sizes = dict(zip(reactor.slots, map(len, regions(reactor)), strict=True))
    assert sizes[flood.slot] <= ReactorOptions().per_turn_bytes


def test_everyone_has_a_share_where_a_turn_has_no_room_for_all(open_with: Open, connect: Connect) -> None:
    reactor = open_with(arena_bytes=1 << 16, per_turn_bytes=1 << 14, max_kept_bytes=1000)
    peers = [connect(reactor) for _ in range(40)]
    shares = dict.fromkeys((peer.slot for peer in peers), 0)
    for _ in range(30):
        for peer in peers:
            peer.send(bytes(1 << 14))
        reactor.turn()
        assert len(reactor.slots) <= 8
        for slot in reactor.slots:
            shares[slot] += 1
        reactor.taken(reactor.stops)
    assert max(shares.values()) - min(shares.values()) <= 2


def test_a_peer_is_lost_once_and_behind_its_last_bytes(reactor: Reactor, connect: Connect) -> None:
    door, peer = Door(reactor), connect()
    peer.send(packet(b"one") + packet(b"two") + b"\0")
    peer.close()
    door.limit = 1
    door.settle()
    assert (door.of(peer).packets, door.of(peer).lost) == ([b"one", b"two"], 1)
    assert reactor.connections == 0
    assert reactor.kept_bytes == 0


def test_positions_outside_their_regions_are_refused_and_nothing_is_taken(reactor: Reactor, connect: Connect) -> None:
    peer = connect()
    peer.send(b"abc")
    reactor.turn()
    for positions in ([4], [-1], [], [0, 0]):
        with pytest.raises(InvalidArgument):
            reactor.taken(array("i", positions))
    with pytest.raises(InvalidArgument):
        reactor.taken(array("i", [3]), b"")
    take(reactor, 1)
    with pytest.raises(InvalidArgument):
        take(reactor, 1)
    peer.send(b"d")
    reactor.turn()
    assert regions(reactor) == [b"cd"]


def test_a_packet_longer_than_the_limit_cannot_be_expected(reactor: Reactor, connect: Connect) -> None:
    peer = connect()
    for size in (-1, (8 << 20) + 1):
        with pytest.raises(InvalidArgument):
            reactor.expect(peer.slot, peer.generation, size)


def test_columns_of_a_door_begin_anew_with_each_connection(reactor: Reactor, connect: Connect) -> None:
    first = connect()
    versions, marks = reactor.add_column("i", 3), reactor.add_column("q")
    assert (versions[first.slot], marks[first.slot]) == (3, 0)
    second = connect()
    versions[first.slot], versions[second.slot], marks[second.slot] = 4, 5, 1 << 40
    for peer in (first, second):
        peer.send(b"x")
    reactor.turn()
    assert sorted(zip(reactor.slots, reactor.values(versions), reactor.values(marks), strict=True)) == sorted(
        [(first.slot, 4, 0), (second.slot, 5, 1 << 40)]
    )
    reactor.taken(reactor.stops)
    reactor.abort(second.slot, second.generation)
    reactor.turn()
    reactor.turn()
    third = connect()
    assert (third.slot, third.generation) == (second.slot, second.generation + 1)
    assert (versions[third.slot], marks[third.slot]) == (3, 0)


def test_columns_have_a_type_and_a_limit(reactor: Reactor) -> None:
    with pytest.raises(InvalidArgument):
        reactor.add_column("f")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument):
        reactor.add_column("i", 1 << 31)
    with pytest.raises(InvalidArgument):
        reactor.values(memoryview(array("i", [1])))
    with pytest.raises(InvalidArgument):
        for _ in range(100):
            reactor.add_column("i")


def test_what_is_known_of_a_connection_is_in_columns(reactor: Reactor, connect: Connect) -> None:
    peer = connect()
    began_ms = reactor.heard_ms[peer.slot]
    assert (reactor.listener[peer.slot], reactor.received_bytes[peer.slot], reactor.high_water[peer.slot]) == (
        7,
        0,
        4 << 20,
    )
    peer.send(b"abc")
    reactor.turn()
    assert reactor.received_bytes[peer.slot] == 3
    assert began_ms <= reactor.heard_ms[peer.slot] == reactor.now_ms
