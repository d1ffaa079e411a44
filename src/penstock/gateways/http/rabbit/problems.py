"""Errors as RabbitMQ's API says them."""

from __future__ import annotations

from penstock.codecs.amqp091.errors import AmqpError
from penstock.codecs.amqp091.errors import Reply as AmqpReply
from penstock.core.errors import BadCredentials, PenstockError
from penstock.gateways.http.server.problems import Refusal, status_of
from penstock.gateways.http.server.reply import Headers, Reply, json_reply

_ERRORS = {
    400: "bad_request",
    401: "not_authorised",
    404: "Object Not Found",
    405: "method_not_allowed",
    413: "payload_too_large",
}
_OF_AMQP = {AmqpReply.ACCESS_REFUSED: 401, AmqpReply.NOT_FOUND: 404}


def rabbit_problem(error: PenstockError | Refusal, is_anonymous: bool) -> Reply:
    """What is not allowed is 401 there, and so is who is not known."""
    headers: Headers = ()
    if isinstance(error, Refusal):
        status, reason = error.status, error.detail
        headers = error.headers
    elif isinstance(error, AmqpError):
        status, reason = _OF_AMQP.get(error.fault.reply, 400), error.fault.text.format(**error.facts)
    else:
        status, reason = status_of(error), str(error)
        status = 400 if status == 409 else 401 if status == 403 else status
    if isinstance(error, BadCredentials) or (status == 401 and is_anonymous):
        reason, headers = "Login failed", ((b"www-authenticate", b'Basic realm="RabbitMQ Management"'),)
    elif status == 404:
        reason = "Not Found"
    return json_reply({"error": _ERRORS.get(status, "error"), "reason": reason}, status, headers)
