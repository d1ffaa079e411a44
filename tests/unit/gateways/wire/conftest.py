from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.support.wire import MakeReactor, SocketPeer, reactors

from penstock.gateways.wire.reactor import Reactor, ReactorOptions

Open = Callable[..., Reactor]


@pytest.fixture(params=reactors())
def open_with(request: pytest.FixtureRequest) -> Iterator[Open]:
    """Opens a reactor with options of the test's; closes it in the end."""
    make: MakeReactor = request.param
    opened: list[Reactor] = []

    def opens(**options: int) -> Reactor:
        opened.append(make(ReactorOptions(**options)))
        return opened[-1]

    yield opens
    for reactor in opened:
        reactor.close()


@pytest.fixture
def reactor(open_with: Open) -> Reactor:
    return open_with()


@pytest.fixture
def connect(reactor: Reactor) -> Iterator[Callable[..., SocketPeer]]:
    """A peer of the reactor, which is closed in the end."""
    peers: list[SocketPeer] = []

    def connects(of: Reactor = reactor, received: bytes = b"", buffer_bytes: int = 0) -> SocketPeer:
        peers.append(SocketPeer(of, received, buffer_bytes))
        return peers[-1]

    yield connects
    for peer in peers:
        peer.close()
