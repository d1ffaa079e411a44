"""Answers that are known as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

JSON = b"application/json"
PROBLEM = b"application/problem+json"
HTML = b"text/html; charset=utf-8"

Headers = Sequence[tuple[bytes, bytes]]

_encoder = msgspec.json.Encoder()


class Reply(NamedTuple):
    status: int
    body: bytes = b""
    content_type: bytes = JSON
    headers: Headers = ()


def json_reply(said: object, status: int = 200, headers: Headers = ()) -> Reply:
    return Reply(status, _encoder.encode(said), JSON, headers)


NO_CONTENT = Reply(204)
