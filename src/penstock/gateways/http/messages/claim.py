"""Taking over messages that a consumer of a group was handed and does not settle."""

from __future__ import annotations

from penstock.codecs.http.deliveries import ClaimBody
from penstock.codecs.http.messages import Received
from penstock.codecs.http.spans import LONGEST_LEASE_S
from penstock.gateways.http.messages.receive import messages_of, step_of
from penstock.gateways.http.server.durations import seconds_of
from penstock.gateways.http.server.exchange import Exchange
from penstock.gateways.http.server.reply import Reply, json_reply
from penstock.gateways.http.server.rights import Right
from penstock.gateways.http.server.routes import API, Route
from penstock.queues.names import parse_group_name


async def claim(exchange: Exchange) -> Reply:
    exchange.require_consume(exchange.queue_name)
    body = await exchange.read(ClaimBody)
    idle_ms = round(1000 * seconds_of(body.idle, "idle", LONGEST_LEASE_S))
    lease_ms = None
    if body.visibility is not None:
        lease_ms = round(1000 * seconds_of(body.visibility, "visibility", LONGEST_LEASE_S))
    broker, queue, receipts = exchange.ports.broker, exchange.queue(), exchange.state.receipts
    group = queue.group(parse_group_name(body.group))
    session = receipts.session(group, exchange.identity.name, body.consumer)
    found = await broker.claim(group, session, min(body.max, step_of(queue)), idle_ms, lease_ms)
    suffix, is_base64 = receipts.suffix(group, session), body.encoding == "base64"
    messages = [each for delivery in found for each in messages_of(queue, delivery, suffix, is_base64)]
    exchange.state.counters.sent += len(messages)
    return json_reply(Received(messages))


ROUTES = (
    Route(
        "POST",
        f"{API}/queues/{{queue}}/claim",
        claim,
        Right.LOGIN,
        "Messages",
        "Claim messages that another consumer does not settle",
        "Those that streams of the group were handed `idle` ago or earlier. They are the caller's for `visibility`, "
        "and what their holders say of them is stale. Of a key all that is in flight goes, or nothing. What was "
        "received over HTTP is left alone: it comes again by itself.",
        body=ClaimBody,
        answers={200: Received},
    ),
)
