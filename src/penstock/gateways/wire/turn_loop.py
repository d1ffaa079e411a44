"""When a turn of a reactor begins: something came, somebody has something to send, or a commit is over. And how
connections come to it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Protocol

from penstock.core.ports import Buffer
from penstock.gateways.wire.listener import ListenerFacts
from penstock.gateways.wire.outbox import Flusher
from penstock.gateways.wire.reactor import Reactor, Transport
from penstock.gateways.wire.slot import Facts, SlotTransport

# A sync takes a tenth of that; who waits for no commit waits no longer for somebody else's.
_LONGEST_WAIT_S = 2e-3


class Gathering(Protocol):
    """What is staged between these is one frame; who gets hungry is fed at the end."""

    def begin_turn(self) -> None: ...

    def end_turn(self) -> None: ...


class TurnLoop:
    """Of one reactor, on one event loop. What comes while a frame of publishes is being committed becomes the next
    turn, which begins with the answers to it, or after a while: others need not wait for a slow disk."""

    def __init__(
        self,
        reactor: Reactor,
        flusher: Flusher,
        committing: Gathering,
        feeding: Gathering,
        opened: Callable[[SlotTransport, ListenerFacts], object],
        look: Callable[[], None],
    ) -> None:
        """`opened` is told of connections; `look` at what a turn brought."""
        self._loop = asyncio.get_running_loop()
        self._reactor, self._flusher, self._committing, self._feeding = reactor, flusher, committing, feeding
        self._opened, self._look_at = opened, look
        self._is_turning = self._is_called = self._is_closed = self._is_late = False
        self._under_way = 0
        self._timer: asyncio.TimerHandle | None = None
        """while nothing is received, so that what comes during a sync is one turn"""
        self._loop.add_reader(reactor.fileno(), self._readable)
        flusher.then = reactor.flush

    # Connections

    def adopt(self, sock: socket.socket, facts: ListenerFacts, peer: object) -> None:
        """One that the server accepted."""
        slot = self._reactor.add(sock.detach(), 0)
        self._opened(SlotTransport(self._reactor, slot, self.soon, peer), facts)

    def adopt_foreign(self, transport: Transport, facts: ListenerFacts, known: Facts) -> SlotTransport:
        """One whose bytes come and go by a transport of asyncio: see feed() and ended()."""
        slot = self._reactor.add_foreign(transport, 0)
        made = SlotTransport(self._reactor, slot, self.soon, facts=known)
        self._opened(made, facts)
        return made

    def feed(self, transport: SlotTransport, data: Buffer) -> None:
        self._reactor.feed(transport.slot, transport.generation, data)
        self.soon()

    def ended(self, transport: SlotTransport) -> None:
        self._reactor.foreign_ended(transport.slot, transport.generation)
        self.soon()

    def drained(self, transport: SlotTransport) -> None:
        self._reactor.foreign_drained(transport.slot, transport.generation)
        self.soon()

    # Turns

    def soon(self) -> None:
        """There is something to send, or to look at, that no socket tells of."""
        if not self._is_called and not self._is_turning:
            self._is_called = True
            self._loop.call_soon(self._called)

    def begun(self) -> None:
        """A frame of publishes is under way."""
        self._under_way += 1

    def given_up(self) -> None:
        """It was refused, or somebody else waits for it."""
        self._under_way -= 1

    def committed(self) -> None:
        """It is: out with the answers, and on to what came meanwhile."""
        self._under_way -= 1
        self._is_late = False
        if self._timer is not None:
            self._go_on(False)
        elif not self._is_turning:
            self._reactor.flush()

    def turn(self) -> None:
        reactor, flusher, committing, feeding = self._reactor, self._flusher, self._committing, self._feeding
        self._is_turning = True
        flusher.gather()
        committing.begin_turn()
        feeding.begin_turn()
        try:
            if reactor.turn():
                self._look_at()
        finally:
            committing.end_turn()
            self._is_turning = False
            flusher.release()
            reactor.flush()  # answers wait for nobody who is fed
            feeding.end_turn()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._reactor.fileno())
        self._flusher.then = _nothing
        self._is_closed = True
        self._reactor.close()

    def _called(self) -> None:
        self._is_called = False
        if not self._is_closed:
            self._readable()

    def _readable(self) -> None:
        if not self._under_way or self._is_late:
            self.turn()
            return
        self._reactor.flush()
        if self._timer is None:
            self._loop.remove_reader(self._reactor.fileno())
            self._timer = self._loop.call_later(_LONGEST_WAIT_S, self._go_on, True)

    def _go_on(self, is_late: bool) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._is_late = is_late
            self._loop.add_reader(self._reactor.fileno(), self._readable)
        self.soon()


def _nothing() -> None:
    """There is no reactor any more."""
