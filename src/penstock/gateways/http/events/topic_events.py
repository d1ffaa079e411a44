"""Live messages of topics as server-sent events: there is no history, and who does not read in time loses some."""

from __future__ import annotations

from typing import Literal

from penstock.core.errors import InvalidArgument
from penstock.gateways.http.events.events import EVENT_STREAM, Ended
from penstock.gateways.http.events.topic_feed import Lost, TopicEvent, TopicFollower
from penstock.gateways.http.server.exchange import Exchange, Query
from penstock.gateways.http.server.reply import Reply
from penstock.gateways.http.server.rights import Right
from penstock.gateways.http.server.routes import API, Route
from penstock.queues.names import check_filter, queue_address


class TopicEventsQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    filter: str
    """as MQTT has them: sensors/+/temperature, sensors/#"""
    encoding: Literal["auto", "base64"] = "auto"


async def topic_events(exchange: Exchange) -> Reply | None:
    query = exchange.query(TopicEventsQuery)
    topic_filter, permissions = query.filter, exchange.permissions
    check_filter(topic_filter)
    if queue_address(topic_filter) is not None:
        raise InvalidArgument(f"{topic_filter!r} names a queue: follow it with GET {API}/queues/<queue>/events")
    if topic_filter.startswith("$share/"):
        raise InvalidArgument("an event stream has no shared subscriptions: leave out $share/<group>/")
    exchange.require_subscribe(topic_filter)
    if exchange.method == "HEAD":
        return Reply(200, b"", EVENT_STREAM.encode())
    feed = exchange.state.topic_feeds.of(exchange.namespace, topic_filter, query.encoding == "base64")
    may_subscribe = permissions.may_subscribe
    async with exchange.state.streams.opened(exchange, b"", lambda: may_subscribe(topic_filter)) as stream:
        await TopicFollower(feed, stream, permissions).follow()
    return None


ROUTES = (
    Route(
        "GET",
        f"{API}/topics/events",
        topic_events,
        Right.LOGIN,
        "Events",
        "Follow topics by server-sent events",
        "Messages published from now on to topics that match the filter. A client that reads too slowly loses "
        "messages; an event `lost` says how many.",
        query=TopicEventsQuery,
        answers={200: None},
        answer_types=(EVENT_STREAM,),
        events={"message": TopicEvent, "lost": Lost, "end": Ended},
    ),
)
