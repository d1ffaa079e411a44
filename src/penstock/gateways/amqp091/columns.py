"""What a turn asks of all connections at once, by their slots."""

from __future__ import annotations

from penstock.gateways.wire.reactor import Reactor


class ConnectionColumns:
    """Zeros when a connection begins."""

    __slots__ = ("assembling", "frame_maxima")

    def __init__(self, reactor: Reactor) -> None:
        self.frame_maxima = reactor.add_column("i")
        """0 until the client is let in, and from its end on"""
        self.assembling = reactor.add_column("i")
        """see codecs.amqp091.assembly"""
