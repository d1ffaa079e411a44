from __future__ import annotations

import os
import socket
import struct
from array import array
from collections.abc import Callable

import pytest
from tests.support.wire import Door, FakeTransport, ForeignPeer, SocketPeer, is_ready, packet

from penstock.core.errors import Closed, InvalidArgument
from penstock.gateways.wire.reactor import Reactor

Open = Callable[..., Reactor]
Connect = Callable[..., SocketPeer]


def ints(*values: int) -> array[int]:
    return array("i", values)


def received(peer: SocketPeer) -> bytes:
    peer.read()
    return bytes(peer.received)


def test_writes_leave_in_order_with_the_next_flush(reactor: Reactor, connect: Connect) -> None:
    peer = connect()
    reactor.write(peer.slot, peer.generation, b"one ")
    reactor.write(peer.slot, peer.generation, bytearray(b"two"))
    assert received(peer) == b""
    assert (reactor.backlog(peer.slot, peer.generation), reactor.unsent_bytes) == (7, 7)
    reactor.flush()
    assert received(peer) == b"one two"
    assert (reactor.backlog(peer.slot, peer.generation), reactor.unsent_bytes) == (0, 0)
    found = reactor.counters()
    assert (found.sends, found.sent_bytes) == (1, 7)


def test_a_turn_sends_what_was_not_flushed(reactor: Reactor, connect: Connect) -> None:
    peer = connect()
    reactor.write(peer.slot, peer.generation, b"one")
    assert not reactor.turn()
    assert received(peer) == b"one"


def test_segments_of_one_buffer_go_to_many(reactor: Reactor, connect: Connect) -> None:
    peers = [connect() for _ in range(3)]
    slots, generations = ints(*(peer.slot for peer in peers)), ints(*(peer.generation for peer in peers))
    reactor.write_many(slots, generations, b"aabbcc", ints(0, 2, 4), ints(2, 4, 6))
    reactor.write_many(slots[:2] + slots[:1], generations[:2] + generations[:1], b"all", ints(0, 0, 0), ints(3, 3, 0))
    reactor.write_many(ints(), ints(), b"", ints(), ints())
    reactor.flush()
    assert [received(peer) for peer in peers] == [b"aaall", b"bball", b"cc"]


def test_what_is_for_a_connection_that_is_gone_reaches_nobody(reactor: Reactor, connect: Connect) -> None:
    gone = connect()
    reactor.abort(gone.slot, gone.generation)
    reactor.turn()
    assert list(reactor.lost) == [gone.slot]
    assert reactor.generation[gone.slot] == gone.generation
    reactor.turn()
    peer = connect()
    assert (peer.slot, peer.generation) == (gone.slot, gone.generation + 1)
    reactor.write(gone.slot, gone.generation, b"stale")
    reactor.write_many(ints(gone.slot), ints(gone.generation), b"stale", ints(0), ints(5))
    for call in (reactor.park, reactor.resume, reactor.end, reactor.abort, reactor.foreign_ended):
        call(gone.slot, gone.generation)
    reactor.expect(gone.slot, gone.generation, 100)
    reactor.feed(gone.slot, gone.generation, b"stale")
    assert not reactor.is_open(gone.slot, gone.generation)
    assert reactor.is_open(peer.slot, peer.generation)
    assert reactor.backlog(gone.slot, gone.generation) == 0
    peer.send(b"x")
    reactor.turn()
    assert list(reactor.slots) == [peer.slot]
    assert received(peer) == b""


def test_a_peer_that_does_not_read_is_clogged_once_and_drained_once(open_with: Open, connect: Connect) -> None:
    reactor = open_with(high_water_bytes=100_000)
    peer = connect(reactor, buffer_bytes=4096)
    other = connect(reactor)
    clogged, drained = list[int](), list[int]()
    sent = b""
    for number in range(60):
        data = bytes([number]) * 10_000
        sent += data
        reactor.write(peer.slot, peer.generation, data)
        reactor.flush()
        reactor.turn()
        clogged += reactor.clogged
        drained += reactor.drained
    assert (clogged, drained) == ([peer.slot], [])
    assert reactor.backlog(peer.slot, peer.generation) == reactor.unsent_bytes > 500_000
    assert not is_ready(reactor)
    reactor.write(other.slot, other.generation, b"not yours")
    reactor.flush()
    assert received(other) == b"not yours"
    while len(peer.received) < len(sent):
        peer.read()
        reactor.turn()
        drained += reactor.drained
    assert (bytes(peer.received) == sent, drained, reactor.unsent_bytes) == (True, [peer.slot], 0)
    assert not is_ready(reactor)


def test_the_mark_at_which_a_connection_is_clogged_is_its_own(reactor: Reactor, connect: Connect) -> None:
    peers = [connect(buffer_bytes=4096) for _ in range(2)]
    reactor.high_water[peers[0].slot] = 1000
    for peer in peers:
        reactor.write(peer.slot, peer.generation, bytes(200_000))
    reactor.flush()
    assert reactor.turn()
    assert list(reactor.clogged) == [peers[0].slot]


def test_an_ending_connection_takes_what_is_unsent_along(reactor: Reactor, connect: Connect) -> None:
    door, peer = Door(reactor), connect(buffer_bytes=4096)
    data = os.urandom(300_000)
    reactor.write(peer.slot, peer.generation, data)
    reactor.end(peer.slot, peer.generation)
    reactor.write(peer.slot, peer.generation, b"too late")
    peer.send(packet(b"nobody looks at this"))
    door.turn()
    assert door.of(peer).lost == 1
    while not peer.is_ended:
        assert reactor.connections == 0
        peer.read()
        door.turn()
    assert bytes(peer.received) == data
    assert (door.of(peer).packets, door.of(peer).lost, reactor.unsent_bytes) == ([], 1, 0)


def test_an_ending_connection_has_a_deadline(open_with: Open, connect: Connect) -> None:
    reactor = open_with(linger_ms=0, max_connections=1)
    peer = connect(reactor, buffer_bytes=4096)
    reactor.write(peer.slot, peer.generation, bytes(300_000))
    reactor.end(peer.slot, peer.generation)
    reactor.turn()
    assert list(reactor.lost) == [peer.slot]
    reactor.turn()
    assert reactor.unsent_bytes == 0
    peer.read()
    assert peer.is_ended
    assert connect(reactor).slot == peer.slot


def test_a_peer_that_only_stopped_sending_gets_what_is_unsent(reactor: Reactor, connect: Connect) -> None:
    door, peer = Door(reactor), connect(buffer_bytes=4096)
    peer.send(packet(b"question"))
    peer.finish()
    door.turn()
    reactor.write(peer.slot, peer.generation, bytes(100_000))
    while not peer.is_ended:
        door.turn()
        peer.read()
    assert (door.of(peer).packets, len(peer.received), door.of(peer).lost) == ([b"question"], 100_000, 1)


def tcp_pair(reactor: Reactor) -> tuple[int, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        peer = socket.create_connection(server.getsockname())
        ours, _ = server.accept()
    return reactor.add(ours.detach(), 0), peer


def test_a_reset_is_the_end_and_writing_to_it_is_no_fault(reactor: Reactor) -> None:
    slot, peer = tcp_pair(reactor)
    generation = reactor.generation[slot]
    peer.send(b"last")
    reactor.turn()
    reactor.taken(reactor.stops)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    reactor.write(slot, generation, b"a" * 1000)
    reactor.flush()
    reactor.write(slot, generation, b"b" * 1000)
    reactor.flush()
    lost = list[int]()
    while is_ready(reactor):
        reactor.turn()
        lost += reactor.lost
    assert (lost, reactor.unsent_bytes, reactor.connections) == ([slot], 0, 0)


def test_a_reset_with_unsent_bytes_of_a_parked_connection_wakes_nobody_for_long(reactor: Reactor) -> None:
    slot, peer = tcp_pair(reactor)
    generation = reactor.generation[slot]
    reactor.park(slot, generation)
    reactor.write(slot, generation, bytes(20 << 20))
    reactor.flush()
    assert reactor.unsent_bytes
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    Door(reactor).settle()
    assert reactor.unsent_bytes == 0
    assert reactor.is_open(slot, generation)
    reactor.resume(slot, generation)
    reactor.turn()
    assert list(reactor.lost) == [slot]


def test_small_writes_leave_at_once(reactor: Reactor) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        ours, _ = server.accept()
        with ours.dup() as copy:
            reactor.add(ours.detach(), 0)
            assert copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_an_aborted_connection_ends_at_once_and_wakes_nobody_any_more(reactor: Reactor) -> None:
    peer, ours = socket.socketpair()
    copy = ours.dup()  # as a child that was forked would hold it
    slot = reactor.add(ours.detach(), 0)
    reactor.write(slot, reactor.generation[slot], b"never sent")
    peer.send(b"x")
    reactor.abort(slot, reactor.generation[slot])
    assert is_ready(reactor)
    reactor.turn()
    assert (list(reactor.lost), list(reactor.slots)) == ([slot], [])
    assert not is_ready(reactor)
    copy.close()
    with peer, pytest.raises(ConnectionResetError):  # what it sent was not read
        peer.recv(100)


def test_a_foreign_connection_is_one_of_the_turn(reactor: Reactor, connect: Connect) -> None:
    door, peer, native = Door(reactor), ForeignPeer(reactor), connect()
    for each in (peer, native):
        each.send(packet(b"hello") + packet(b"again")[:3])
    door.turn()
    assert sorted(reactor.slots) == sorted([peer.slot, native.slot])
    for each in (peer, native):
        each.send(packet(b"again")[3:])
    door.turn()
    assert door.of(peer).packets == door.of(native).packets == [b"hello", b"again"]
    assert reactor.received_bytes[peer.slot] == len(peer.sent)
    slots, generations = ints(peer.slot, native.slot), ints(peer.generation, native.generation)
    reactor.write_many(slots, generations, b"ok", ints(0, 0), ints(2, 2))
    assert reactor.backlog(peer.slot, peer.generation) == 2
    reactor.flush()
    assert (bytes(peer.received), received(native)) == (b"ok", b"ok")
    reactor.write(peer.slot, peer.generation, b" bye")
    reactor.end(peer.slot, peer.generation)
    assert (bytes(peer.received), peer.is_ended) == (b"ok bye", True)
    peer.finish()
    door.settle()
    assert (door.of(peer).lost, door.of(native).lost) == (1, 0)


def test_a_transport_that_ends_is_lost_behind_what_it_brought(reactor: Reactor) -> None:
    door, peer = Door(reactor, limit=1), ForeignPeer(reactor)
    peer.send(packet(b"one") + packet(b"two") + b"\0")
    peer.finish()
    door.settle()
    assert (door.of(peer).packets, door.of(peer).lost) == ([b"one", b"two"], 1)


def test_a_transport_is_paused_while_its_connection_is_parked_or_full(open_with: Open) -> None:
    reactor = open_with(max_kept_bytes=1000, per_turn_bytes=1000, max_packet_bytes=1500)
    door, peer = Door(reactor), ForeignPeer(reactor)
    reactor.park(peer.slot, peer.generation)
    assert peer.transport.is_paused
    reactor.resume(peer.slot, peer.generation)
    assert not peer.transport.is_paused
    bodies = [bytes([number]) * 700 for number in range(9)]
    peer.send(b"".join(map(packet, bodies)))
    assert peer.transport.is_paused
    door.settle()
    assert not peer.transport.is_paused
    assert door.of(peer).packets == bodies


def test_what_was_fed_and_finds_no_room_in_a_turn_is_offered_in_the_next(open_with: Open) -> None:
    reactor = open_with(arena_bytes=1 << 16)
    door, peers = Door(reactor), [ForeignPeer(reactor) for _ in range(5)]
    for peer in peers:
        peer.send(packet(bytes(60_000)))
    door.turn()
    assert 0 < len(reactor.slots) < 5
    door.settle()
    assert [door.of(peer).packets for peer in peers] == [[bytes(60_000)]] * 5


def test_a_connection_with_a_socket_is_not_fed(reactor: Reactor, connect: Connect) -> None:
    peer = connect()
    with pytest.raises(InvalidArgument):
        reactor.feed(peer.slot, peer.generation, b"x")


def test_what_a_transport_holds_counts_as_unsent(open_with: Open) -> None:
    reactor = open_with(high_water_bytes=1000)
    peer = ForeignPeer(reactor)
    peer.transport.held_bytes = 1001
    for _ in range(2):
        reactor.write(peer.slot, peer.generation, b"x")
        reactor.flush()
    assert reactor.backlog(peer.slot, peer.generation) == 1001
    assert reactor.turn()
    assert list(reactor.clogged) == [peer.slot]
    peer.transport.held_bytes = 0
    reactor.foreign_drained(peer.slot, peer.generation)
    assert is_ready(reactor)
    assert reactor.turn()
    assert (list(reactor.clogged), list(reactor.drained)) == ([], [peer.slot])


def test_a_transport_that_fails_ends_its_connection_alone(
    reactor: Reactor, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = ForeignPeer(reactor), connect()
    bad.transport.fails = True
    for peer in (bad, good):
        reactor.write(peer.slot, peer.generation, b"x")
    reactor.flush()
    assert reactor.turn()
    assert (list(reactor.lost), received(good)) == ([bad.slot], b"x")
    assert "transport failed" in caplog.text


def test_segments_that_leave_the_buffer_are_refused_and_nothing_is_written(reactor: Reactor, connect: Connect) -> None:
    peer = connect()
    slots, generations = ints(peer.slot, peer.slot), ints(peer.generation, peer.generation)
    for starts, stops in (
        (ints(0, -1), ints(2, 1)),
        (ints(0, 2), ints(2, 1)),
        (ints(0, 0), ints(2, 4)),
        (ints(0), ints(1, 1)),
    ):
        with pytest.raises(InvalidArgument):
            reactor.write_many(slots, generations, b"abc", starts, stops)
    with pytest.raises(InvalidArgument):
        reactor.write_many(ints(peer.slot, 1 << 20), generations, b"abc", ints(0, 0), ints(1, 1))
    for slot in (-1, 65_536):
        with pytest.raises(InvalidArgument):
            reactor.write(slot, 0, b"x")
        with pytest.raises(InvalidArgument):
            reactor.park(slot, 0)
    reactor.flush()
    assert received(peer) == b""


def test_a_closed_reactor_says_so(open_with: Open, connect: Connect) -> None:
    reactor = open_with()
    peer, transport = connect(reactor), FakeTransport()
    slot = reactor.add_foreign(transport, 0)
    reactor.write(peer.slot, peer.generation, b"x")
    reactor.close()
    reactor.close()
    peer.read()
    assert (peer.is_ended, transport.is_closed) == (True, True)
    calls: list[Callable[[], object]] = [
        reactor.turn,
        reactor.flush,
        reactor.fileno,
        reactor.counters,
        lambda: reactor.taken(ints()),
        lambda: reactor.write(slot, 0, b""),
        lambda: reactor.write_many(ints(), ints(), b"", ints(), ints()),
        lambda: reactor.feed(slot, 0, b""),
        lambda: reactor.end(slot, 0),
        lambda: reactor.abort(slot, 0),
        lambda: reactor.park(slot, 0),
        lambda: reactor.expect(slot, 0, 1),
        lambda: reactor.add(0, 0),
        lambda: reactor.add_foreign(transport, 0),
        lambda: reactor.add_column("i"),
        lambda: reactor.unlisten(1),
        lambda: reactor.connections,
    ]
    for call in calls:
        with pytest.raises(Closed):
            call()
