"""What a turn asks of all clients at once, as columns by the slots of their connections."""

from __future__ import annotations

from penstock.gateways.wire.reactor import Reactor


class ClientColumns:
    """Zeros when a connection begins. A connection writes to its own places, until it is gone; kernels to all."""

    __slots__ = (
        "alias_maxima",
        "is_limited",
        "maxima",
        "namespaces",
        "owed",
        "places",
        "received",
        "unanswered",
        "versions",
        "waiting",
    )

    def __init__(self, reactor: Reactor) -> None:
        add = reactor.add_column
        self.versions = add("i")
        """0 until the client is let in, and from its end on"""
        self.alias_maxima = add("i")
        self.maxima = add("i")
        """how many of its publishes may be unanswered"""
        self.unanswered = add("i")
        """how many are"""
        self.owed = add("i")
        """turns under way whose answers are sent to many clients together"""
        self.waiting = add("i")
        """answers to it alone, which come behind those"""
        self.namespaces = add("i")
        """by number"""
        self.is_limited = add("i")
        """whether the rate of its messages has to be asked"""
        self.places = add("q")
        """where its messages without a key go: see Publisher.place"""
        self.received = add("q")
        """messages that it published"""
