from __future__ import annotations

import contextlib
import os
import resource
import socket
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.wire import Door, MakeReactor, SocketPeer, packet, reactors

from penstock.gateways.wire.reactor import Reactor, ReactorOptions

Open = Callable[..., Reactor]
_SPARE_DESCRIPTORS = 500


@pytest.fixture
def most() -> Iterator[int]:
    """How many connections with both ends in this process there may be, 5,000 at most."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * 5000 + _SPARE_DESCRIPTORS
    limit = min(wanted, hard) if hard != resource.RLIM_INFINITY else wanted
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, limit), hard))
    yield (max(soft, limit) - _SPARE_DESCRIPTORS) // 2 if max(soft, limit) < wanted else 5000
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.contextmanager
def many(reactor: Reactor, count: int) -> Iterator[list[SocketPeer]]:
    peers = [SocketPeer(reactor) for _ in range(count)]
    try:
        yield peers
    finally:
        for peer in peers:
            peer.close()


def test_thousands_of_connections_are_served_in_a_few_turns(open_with: Open, most: int) -> None:
    reactor = open_with()
    door = Door(reactor)
    with many(reactor, most) as peers:
        assert reactor.connections == most
        for number, peer in enumerate(peers):
            peer.send(packet(b"%d" % number))
        for _ in range(2):
            door.turn()
        assert [door.of(peer).packets for peer in peers] == [[b"%d" % number] for number in range(most)]
        slots, generations = array("i", [p.slot for p in peers]), array("i", [p.generation for p in peers])
        starts, stops = array("i", range(0, 4 * most, 4)), array("i", range(4, 4 * most + 4, 4))
        answers = b"".join(number.to_bytes(4, "big") for number in range(most))
        reactor.write_many(slots, generations, answers, starts, stops)
        reactor.flush()
        for number, peer in enumerate(peers):
            assert peer.sock.recv(10) == number.to_bytes(4, "big")
    door.settle()
    assert reactor.connections == 0
    assert sum(seen.lost for seen in door.seen.values()) == most


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="nobody tells how much memory is resident")
def test_an_idle_connection_costs_less_than_300_bytes(open_with: Open, most: int) -> None:
    reactor = open_with()
    if "Epoll" not in type(reactor).__name__:
        pytest.skip("those in Python are objects")
    pairs = [socket.socketpair() for _ in range(most)]
    ours = [pair[1].detach() for pair in pairs]
    before = resident_bytes()
    for fd in ours:
        reactor.add(fd, 0)
    reactor.turn()
    cost = (resident_bytes() - before) / most
    for peer, _ in pairs:
        peer.close()
    assert cost < 300


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="nobody tells how much memory is resident")
@pytest.mark.parametrize("make", reactors())
def test_memory_is_flat_over_thousands_of_connections_that_come_and_go(make: MakeReactor) -> None:
    reactor = make(ReactorOptions())
    count = 40_000 if "Epoll" in type(reactor).__name__ else 8_000

    def come_and_go(rounds: int) -> int:
        for _ in range(rounds):
            peers = [SocketPeer(reactor) for _ in range(100)]
            for peer in peers:
                peer.sock.send(b"half a pack")
                reactor.write(peer.slot, peer.generation, bytes(300))
            reactor.turn()
            reactor.taken(reactor.starts)
            for number, peer in enumerate(peers):
                if number % 3 == 0:
                    reactor.end(peer.slot, peer.generation)
                peer.close()
            while reactor.connections:
                reactor.turn()
        return resident_bytes()

    before = come_and_go(count // 400)
    after = come_and_go(count // 100 - count // 400)
    assert after - before < 1 << 20
    assert (reactor.kept_bytes, reactor.unsent_bytes) == (0, 0)
    assert sum(generation > 0 for generation in reactor.generation) <= 300, "slots are used again"
    reactor.close()
