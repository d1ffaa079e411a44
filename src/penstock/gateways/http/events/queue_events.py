"""A queue as server-sent events: history, then what comes, and nothing is consumed by it."""

from __future__ import annotations

from typing import Literal

import msgspec

from penstock.broker.queues.queue import Queue
from penstock.codecs.http.messages import Message
from penstock.codecs.http.shapes import Offsets, ReadingPlace
from penstock.gateways.http.events.events import EVENT_STREAM, Ended, event
from penstock.gateways.http.events.feed import Follower
from penstock.gateways.http.events.slices import Gap
from penstock.gateways.http.messages.cursors import Vector
from penstock.gateways.http.messages.partition_parts import parse_start, place_of
from penstock.gateways.http.server.exchange import Exchange, Query
from penstock.gateways.http.server.reply import Reply
from penstock.gateways.http.server.rights import Right
from penstock.gateways.http.server.routes import API, Route


class EventsQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    start: ReadingPlace = msgspec.field(name="from", default="latest")
    """earliest, latest, offset:17, a time like 2026-01-31T12:00:00Z, or a duration like 2h: that long ago"""
    last_event_id: Offsets | None = None
    """as the header Last-Event-ID, which goes before it; it goes before `from`"""
    encoding: Literal["auto", "base64"] = "auto"


async def queue_events(exchange: Exchange) -> Reply | None:
    name = exchange.queue_name
    exchange.require_browse(name)
    query, queue = exchange.query(EventsQuery), exchange.queue()
    if exchange.method == "HEAD":
        return Reply(200, b"", EVENT_STREAM.encode())
    feed = exchange.state.feeds.of(queue, query.encoding == "base64")
    place, gaps = Vector.end_of(queue), b""
    if (known := _last_event_id(exchange, query)) is not None:
        place, gaps = _resumed(Vector.parse(known), queue)
    elif query.start != "latest":
        place = await place_of(parse_start(query.start), queue, exchange.ports.broker)
    permissions = exchange.permissions
    # The id without an event: who is cut off before the first message comes back to where it began.
    first = b"id: %b\n\n%b" % (place.text.encode(), gaps)
    async with exchange.state.streams.opened(exchange, first, lambda: permissions.may_browse(name)) as stream:
        await Follower(feed, stream, place).follow()
    return None


def _last_event_id(exchange: Exchange, query: EventsQuery) -> str | None:
    said = exchange.header(b"last-event-id")
    return query.last_event_id if said is None else said.decode("latin-1")


def _resumed(known: Vector, queue: Queue) -> tuple[Vector, bytes]:
    """Where a client goes on, and what it is told first. A place that the queue has not come to is of an earlier queue
    of that name: there, all of this one is new."""
    offsets = {partition: at for partition, at in known.offsets.items() if partition < queue.settings.partitions}
    ends = {partition: unit.end for partition, unit in queue.units.items()}
    unknown = [(partition, at) for partition, at in offsets.items() if at > ends.get(partition, 0)]
    starts = {partition: unit.start for partition, unit in queue.units.items()}
    place = Vector(offsets | {partition: starts.get(partition, 0) for partition, _ in unknown})
    gaps = [Gap(partition, at, place[partition]) for partition, at in unknown]
    return place, b"".join([event(msgspec.json.encode(gap), place.text, "gap") for gap in gaps])


ROUTES = (
    Route(
        "GET",
        f"{API}/queues/{{queue}}/events",
        queue_events,
        Right.LOGIN,
        "Events",
        "Follow a queue by server-sent events",
        "Messages from `from` on, then new ones as they are committed, in the order of each partition. Nothing is "
        "consumed. The id of an event has the next offset of each partition: as Last-Event-ID it continues the stream "
        "there, also after a restart. An event `gap` reports messages that are gone, `end` that no more will come.",
        query=EventsQuery,
        answers={200: None},
        answer_types=(EVENT_STREAM,),
        events={"message": Message, "gap": Gap, "end": Ended},
    ),
)
