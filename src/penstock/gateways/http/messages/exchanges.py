"""Publishing to exchanges."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from penstock.codecs.http.exchanges import ExchangeMessage, ExchangePublish, ExchangeReport
from penstock.gateways.http.admin.exchanges import exchange_name
from penstock.gateways.http.messages.bodies import columns_of, refuse_both
from penstock.gateways.http.server.exchange import Exchange as Request
from penstock.gateways.http.server.exchange import Query
from penstock.gateways.http.server.problems import Refusal
from penstock.gateways.http.server.reply import Reply, json_reply
from penstock.gateways.http.server.rights import Right
from penstock.gateways.http.server.routes import API, Route
from penstock.queues.exchange_topics import exchange_topic


class MandatoryQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    mandatory: bool = False
    """refuse all of it if there is a message that nobody gets"""


async def publish(request: Request) -> Reply:
    is_mandatory, name = request.query(MandatoryQuery).mandatory, exchange_name(request)
    messages = _messages(await request.read(ExchangePublish))
    topics = {key: _topic(name, key) for key in {message.routing_key for message in messages}}
    for topic in topics.values():
        request.require_publish(topic)
    request.take_rate(len(messages))
    placed = [msgspec.structs.replace(each, topic=topics[each.routing_key]) for each in messages]
    routed = await request.ports.topics.send(
        columns_of(placed),
        qos=1,
        retain=False,
        publisher=request.connection.publisher,
        namespace=request.namespace,
        is_mandatory=is_mandatory,
    )
    request.state.counters.received += len(messages)
    return json_reply(ExchangeReport(len(messages), routed))


def _topic(exchange: str, key: str) -> str:
    try:
        return exchange_topic(exchange, key.encode()).decode()
    except UnicodeEncodeError:
        detail = "routing_key: it has half of a surrogate pair in it"
        raise Refusal(400, "malformed-body", detail, "routing_key") from None


def _messages(body: ExchangePublish) -> Sequence[ExchangeMessage]:
    messages: Sequence[ExchangeMessage] = [body]
    if body.messages is not UNSET:
        refuse_both(body)
        messages = body.messages
    if not messages:
        raise Refusal(400, "malformed-body", "messages: the list is empty, give at least one message", "messages")
    for field in ("topic", "partition"):
        if any(getattr(message, field) is not None for message in messages):
            raise Refusal(400, "malformed-body", f"{field}: the exchange decides that, leave it out", field)
    return messages


ROUTES = (
    Route(
        "POST",
        f"{API}/exchanges/{{exchange}}/messages",
        publish,
        Right.LOGIN,
        "Exchanges",
        "Publish to an exchange",
        "To the queues that its bindings lead to; through amq.topic, to subscribers as well. The default exchange is "
        "`amq.default` here: its routing keys are names of queues.",
        body=ExchangePublish,
        query=MandatoryQuery,
        answers={200: ExchangeReport},
    ),
)
