"""What the records of the state log make of sessions: the same live and after a restart."""

from __future__ import annotations

from array import array
from collections.abc import Callable

from penstock.broker.sessions.deadlines import Deadlines
from penstock.broker.sessions.records import (
    Begun,
    Completed,
    Connected,
    Disconnected,
    Ended,
    Held,
    Received,
    Released,
    Sent,
    Settled,
    StateRecord,
    Subscribed,
    Subscription,
    Unsubscribed,
    WillPublished,
)
from penstock.broker.sessions.session import Session

# Of the ways to subscribe; what there may be more of is unusual.
_MOST_SHARED = 1024

MakeSession = Callable[[int, str, str, int], Session]
"""number, client id, namespace, number of the message log"""


class Fold:
    """All sessions. While `deferred` is a list, messages are not there yet, and what settles them is kept in it."""

    def __init__(self, make: MakeSession) -> None:
        self._make = make
        self.sessions: dict[int, Session] = {}
        self.clients: dict[str, dict[str, Session]] = {}
        """by namespace and client id"""
        self.deadlines = Deadlines(self.sessions)
        self.next_number = 1
        self.shift = 0
        """of times in records against those here: wall clock minus running time"""
        self.deferred: list[tuple[Session, int, array[int]]] | None = None
        self._subscriptions: dict[Subscription, Subscription] = {}
        """one object for all that are equal: most of a hundred thousand sessions subscribe alike"""

    def apply(self, record: StateRecord) -> None:
        """Records of sessions that are gone are passed over."""
        if isinstance(record, Begun):
            self._begin(record)
            return
        session = self.sessions.get(record.number)
        if session is None:
            return
        match record:
            case Ended():
                self.remove(session)
            case Subscribed():
                self.subscribe(session, record.subscriptions)
            case Unsubscribed():
                for filter in record.filters:
                    session.subscriptions.pop(filter, None)
            case Connected():
                session.is_connected, session.owner = True, record.owner
                session.expiry_s, session.will = record.expiry_s, record.will
            case Disconnected():
                session.apply_disconnected(record)
                session.disconnected_ms -= self.shift
                self.deadlines.watch(session)
            case WillPublished():
                session.will = None
            case Settled():
                session.last_packet_id = record.last_packet_id or session.last_packet_id
                self._settle(session, record.below, array("q", record.message_ids))
            case Sent():
                session.apply_sent(record.packet_ids, record.message_ids)
            case Received():
                self._settle(session, 0, session.apply_received(record.packet_ids))
            case Completed():
                session.apply_completed(record.packet_ids)
            case Held():
                session.held |= frozenset(record.packet_ids)
            case Released():
                session.held -= frozenset(record.packet_ids)

    def add(self, number: int, client_id: str, namespace: str, log: int) -> Session:
        """The one of that client, if there is one, ends."""
        clients = self.clients.setdefault(namespace, {})
        if (before := clients.get(client_id)) is not None:
            self.remove(before)
        session = self._make(number, client_id, namespace, log)
        self.sessions[number] = clients[client_id] = session
        self.next_number = max(self.next_number, number + 1)
        return session

    def remove(self, session: Session) -> None:
        session.end()
        del self.sessions[session.number]
        del self.clients[session.namespace][session.client_id]

    def subscribe(self, session: Session, subscriptions: dict[str, Subscription]) -> None:
        for filter, subscription in subscriptions.items():
            session.subscriptions[filter] = self._shared(subscription)

    def _shared(self, subscription: Subscription) -> Subscription:
        """Most sessions subscribe alike. What a client chooses freely is not kept for others."""
        if subscription.extra or len(self._subscriptions) >= _MOST_SHARED:
            return self._subscriptions.get(subscription, subscription)
        return self._subscriptions.setdefault(subscription, subscription)

    def settle_deferred(self) -> None:
        """The messages are there now."""
        deferred, self.deferred = self.deferred or [], None
        for session, below, message_ids in deferred:
            if not session.is_ended:
                self._settle(session, below, message_ids)

    def _begin(self, record: Begun) -> None:
        if record.number in self.sessions:
            return  # a snapshot had it
        session = self.add(record.number, record.client_id, record.namespace, record.log)
        session.owner, session.expiry_s, session.will = record.owner, record.expiry_s, record.will

    def _settle(self, session: Session, below: int, message_ids: array[int]) -> None:
        if self.deferred is not None:
            self.deferred.append((session, below, message_ids))
            return
        if below:
            session.apply_settled_below(below)
        if message_ids:
            session.apply_settled(message_ids)
