"""Errors as HTTP says them: RFC 9457 problem documents with stable codes."""

from __future__ import annotations

import math

import msgspec

from penstock.core.errors import (
    BadCredentials,
    ErrorCode,
    InvalidSetting,
    NotAuthorised,
    PenstockError,
    TooManyAttempts,
)
from penstock.gateways.http.server.reply import PROBLEM, Headers, Reply

_RETRY_SOON_S = 1

STATUS = {
    ErrorCode.INVALID_ARGUMENT: 400,
    ErrorCode.INVALID_SETTING: 400,
    ErrorCode.OFFSET_OUT_OF_RANGE: 400,
    ErrorCode.BAD_CREDENTIALS: 401,
    ErrorCode.NOT_AUTHORISED: 403,
    ErrorCode.NO_SUCH_LOG: 404,
    ErrorCode.NO_SUCH_QUEUE: 404,
    ErrorCode.NO_SUCH_GROUP: 404,
    ErrorCode.NO_SUCH_USER: 404,
    ErrorCode.NO_SUCH_EXCHANGE: 404,
    ErrorCode.NO_SUCH_BINDING: 404,
    ErrorCode.UNROUTABLE: 404,
    ErrorCode.EXCHANGE_RESERVED: 403,
    ErrorCode.QUEUE_RESERVED: 403,
    ErrorCode.NAMESPACE_REFUSED: 403,
    ErrorCode.NO_SUCH_NAMESPACE: 404,
    ErrorCode.NO_SUCH_POLICY: 404,
    ErrorCode.EXCHANGE_INTERNAL: 403,
    ErrorCode.DEFAULT_EXCHANGE: 403,
    ErrorCode.EXCHANGE_DIFFERS: 409,
    ErrorCode.EXCHANGE_IN_USE: 409,
    ErrorCode.LOG_EXISTS: 409,
    ErrorCode.QUEUE_EXISTS: 409,
    ErrorCode.GROUP_EXISTS: 409,
    ErrorCode.GROUP_IN_USE: 409,
    ErrorCode.USER_EXISTS: 409,
    ErrorCode.STALE_SETTLEMENT: 409,
    ErrorCode.OUT_OF_ORDER: 409,
    ErrorCode.FENCED_PRODUCER: 409,
    ErrorCode.FENCED_MEMBER: 409,
    ErrorCode.STAGE_GONE: 409,
    ErrorCode.EPOCH_FORGOTTEN: 409,
    ErrorCode.TOO_LARGE: 413,
    ErrorCode.QUEUE_FULL: 429,
    ErrorCode.EXCHANGE_LIMIT: 429,
    ErrorCode.QUEUE_LIMIT: 429,
    ErrorCode.TOO_MANY_ATTEMPTS: 429,
    ErrorCode.DISK_LOW: 507,
}
"""Whatever is not here is the server's own trouble: 503."""

TITLES = {
    400: "Bad request",
    401: "Authentication required",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    406: "Not acceptable",
    408: "Request timeout",
    409: "Conflict",
    412: "Changed since it was read",
    413: "Too large",
    415: "Unsupported media type",
    421: "Unknown host",
    429: "Too many requests",
    431: "Request headers too large",
    500: "Internal server error",
    501: "Not implemented",
    503: "Service unavailable",
    505: "HTTP version not supported",
    507: "Disk almost full",
}


class Problem(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """RFC 9457. `code` is stable, `detail` is for people; `field` is the part of the request that is meant."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    instance: str
    """the id of the request, as in the log and in the header Penstock-Request-Id"""
    field: str | None = None
    retry_after_s: int | None = None


class Refusal(Exception):
    """What HTTP itself refuses, without a word from the broker."""

    def __init__(
        self, status: int, code: str, detail: str, field: str | None = None, headers: Headers = (), closes: bool = False
    ) -> None:
        """`closes`: what is left of the request is not read."""
        super().__init__(detail)
        self.status, self.code, self.detail, self.field = status, code, detail, field
        self.headers, self.closes = headers, closes


def status_of(error: PenstockError) -> int:
    return STATUS.get(error.code, 503)


def problem_of(error: PenstockError | Refusal, request_id: str) -> Problem:
    if isinstance(error, Refusal):
        return _problem(error.status, error.code, error.detail, request_id, error.field)
    retry_after_s = None
    if isinstance(error, TooManyAttempts):
        retry_after_s = max(1, math.ceil(error.wait_s))
    elif error.code is ErrorCode.QUEUE_FULL:
        retry_after_s = _RETRY_SOON_S
    field = error.path if isinstance(error, InvalidSetting) else None
    return _problem(status_of(error), error.code.value, str(error), request_id, field, retry_after_s)


def _problem(
    status: int, code: str, detail: str, request_id: str, field: str | None = None, retry_after_s: int | None = None
) -> Problem:
    return Problem(
        type=f"urn:penstock:error:{code}",
        title=TITLES.get(status, "Request failed"),
        status=status,
        detail=detail,
        code=code,
        instance=request_id,
        field=field,
        retry_after_s=retry_after_s,
    )


def problem_reply(error: PenstockError | Refusal, request_id: str, is_anonymous: bool = False) -> Reply:
    """`is_anonymous`: nobody has said who is asking, so what is not allowed may be allowed to somebody."""
    problem = problem_of(error, request_id)
    headers = list(error.headers) if isinstance(error, Refusal) else []
    if isinstance(error, NotAuthorised) and is_anonymous:
        problem = msgspec.structs.replace(problem, status=401, title=TITLES[401])
    if problem.status == 401 or isinstance(error, BadCredentials):
        headers.append((b"www-authenticate", b'Bearer realm="penstock", Basic realm="penstock"'))
    if problem.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % problem.retry_after_s))
    if isinstance(error, Refusal) and error.closes:
        headers.append((b"connection", b"close"))
    return Reply(problem.status, msgspec.json.encode(problem), PROBLEM, headers)
