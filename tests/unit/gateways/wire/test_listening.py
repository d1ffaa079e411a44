from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.descriptors import open_descriptors
from tests.support.wire import Door, FakeTransport, compiled, is_ready, packet

from penstock.core.errors import InvalidArgument
from penstock.gateways.wire.platform import open_reactor
from penstock.gateways.wire.reactor import Accepted, Reactor, ReactorOptions
from penstock.gateways.wire.sockets import SocketReactor

Open = Callable[..., Reactor]


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=100) as sock:
        yield sock


@contextlib.contextmanager
def clients(server: socket.socket, count: int) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection(server.getsockname())) for _ in range(count)]


def accepted(reactor: Reactor) -> list[Accepted]:
    found: list[Accepted] = []
    while is_ready(reactor):
        found += after_a_turn(reactor)
    return found


def after_a_turn(reactor: Reactor) -> list[Accepted]:
    reactor.turn()
    return reactor.accepted


def test_connections_are_accepted_with_their_listener_and_address(reactor: Reactor, server: socket.socket) -> None:
    reactor.listen(server, 3)
    with clients(server, 2) as peers:
        found = accepted(reactor)
        assert {one.address for one in found} == {peer.getsockname() for peer in peers}
        assert {one.listener for one in found} == {reactor.listener[one.slot] for one in found} == {3}
        assert reactor.connections == reactor.counters().accepts == 2
        by_address = {one.address: one.slot for one in found}
        peers[0].send(b"hello")
        reactor.turn()
        assert list(reactor.slots) == [by_address[peers[0].getsockname()]]


def test_addresses_are_those_of_the_socket_module(reactor: Reactor, tmp_path: Path) -> None:
    path = os.path.relpath(tmp_path / "s")  # an absolute one may be too long
    with contextlib.ExitStack() as stack:
        unix = stack.enter_context(socket.socket(socket.AF_UNIX))
        unix.bind(path)
        unix.listen()
        reactor.listen(unix, 1)
        stack.enter_context(socket.socket(socket.AF_UNIX)).connect(path)
        named = stack.enter_context(socket.socket(socket.AF_UNIX))
        named.bind(path + "2")
        named.connect(path)
        assert sorted(str(one.address) for one in accepted(reactor)) == ["", path + "2"]
        if socket.has_ipv6:
            six = stack.enter_context(socket.create_server(("::1", 0), family=socket.AF_INET6))
            reactor.listen(six, 2)
            client = stack.enter_context(socket.create_connection(six.getsockname()[:2]))
            assert [one.address for one in accepted(reactor)] == [client.getsockname()]


def test_a_turn_accepts_a_bounded_number(open_with: Open, server: socket.socket) -> None:
    reactor = open_with(accepts_per_turn=3)
    reactor.listen(server, 1)
    with clients(server, 7):
        assert [len(after_a_turn(reactor)) for _ in range(4)] == [3, 3, 1, 0]


def test_more_connections_than_slots_wait_in_the_queue_of_the_listener(open_with: Open, server: socket.socket) -> None:
    reactor = open_with(max_connections=2, accept_rest_ms=1)
    reactor.listen(server, 1)
    with clients(server, 3):
        first = [one.slot for _ in range(5) for one in after_a_turn(reactor)]
        assert len(first) == 2
        assert reactor.counters().accept_rests >= 1
        with pytest.raises(InvalidArgument):
            reactor.add_foreign(FakeTransport(), 0)
        reactor.abort(first[0], reactor.generation[first[0]])
        found: list[Accepted] = []
        while not found:
            found += after_a_turn(reactor)
        assert found[0].slot == first[0]


def test_without_descriptors_a_listener_rests(open_with: Open, server: socket.socket) -> None:
    reactor = open_with(accept_rest_ms=60_000)
    reactor.listen(server, 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with clients(server, 1):
        highest = max(int(file.name) for file in Path("/dev/fd").iterdir())
        spare = [os.dup(0) for _ in range(highest + 1 - open_descriptors())]
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
        try:
            with contextlib.suppress(OSError):
                while True:
                    spare.append(os.dup(0))
            for _ in range(3):
                assert not reactor.turn()
            assert not is_ready(reactor)
            assert reactor.counters().accept_rests == 1
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for fd in spare:
                os.close(fd)
        reactor.unlisten(1)
        reactor.listen(server, 1)
        assert len(accepted(reactor)) == 1


def test_what_an_interrupted_turn_brought_is_told_by_the_next(
    server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = compiled()
    if make is None:
        pytest.skip("there is no compiled reactor")
    reactor = make(ReactorOptions())
    reactor.listen(server, 1)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with clients(server, 2) as peers:
        for peer in peers:
            peer.send(b"x")
        with monkeypatch.context() as patch:
            patch.setattr("penstock.gateways.wire.epoll.Accepted", interrupted)
            with pytest.raises(KeyboardInterrupt):
                reactor.turn()
        assert reactor.turn()
        assert len(reactor.accepted) == 2
        reactor.turn()
        assert sorted(reactor.slots) == [0, 1]
    reactor.close()


def test_a_listener_that_was_taken_away_accepts_no_more(reactor: Reactor, server: socket.socket) -> None:
    reactor.listen(server, 1)
    with pytest.raises(InvalidArgument):
        reactor.listen(server, 1)
    reactor.unlisten(1)
    reactor.unlisten(1)
    with clients(server, 1):
        assert not is_ready(reactor)
        assert not reactor.turn()


def test_a_loop_of_asyncio_watches_it_like_a_file(reactor: Reactor, server: socket.socket) -> None:
    door = Door(reactor)
    reactor.listen(server, 1)

    lost = asyncio.Event()

    def turn() -> None:
        door.turn()
        if reactor.lost:
            lost.set()
        for slot, generation in door.seen:
            if door.seen[slot, generation].packets:
                reactor.write(slot, generation, b"yes")
        reactor.flush()

    async def talk() -> bytes:
        asyncio.get_running_loop().add_reader(reactor.fileno(), turn)
        reader, writer = await asyncio.open_connection(*server.getsockname())
        for piece in (packet(b"are you there?")[:5], packet(b"are you there?")[5:]):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        answer = await reader.readexactly(3)
        writer.close()
        await writer.wait_closed()
        await lost.wait()
        asyncio.get_running_loop().remove_reader(reactor.fileno())
        return answer

    assert asyncio.run(asyncio.wait_for(talk(), 10)) == b"yes"


def test_the_compiled_one_is_opened_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_PURE", raising=False)
    usual = open_reactor()
    assert isinstance(usual, SocketReactor) == (compiled() is None)
    monkeypatch.setenv("PENSTOCK_PURE", "1")
    plain = open_reactor(ReactorOptions(max_connections=1))
    assert isinstance(plain, SocketReactor)
    usual.close()
    plain.close()


@pytest.mark.parametrize(
    "options",
    [
        {"max_connections": 0},
        {"per_turn_bytes": 0},
        {"max_kept_bytes": -1},
        {"max_packet_bytes": 1 << 30},
        {"accepts_per_turn": 0},
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(InvalidArgument):
        ReactorOptions(**options)
