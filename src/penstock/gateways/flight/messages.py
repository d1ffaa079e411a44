"""What the Flight listener and the server say to each other beside what every door does."""

from __future__ import annotations

from penstock.gateways.beside import lines
from penstock.gateways.beside.lines import ListenOptions

# Names of 255 bytes, each byte six characters in JSON at worst, fit a line beside the credentials.
QUEUES_AT_ONCE = 256


class Options(ListenOptions, frozen=True, kw_only=True):
    directory: str
    max_streams: int = 32
    max_streams_per_client: int = 8


class Question(lines.Question, frozen=True, tag="question"):
    """Who is it, and which of these queues may it read? `is_fresh`: answered when what was acknowledged before can be
    read."""

    authorization: str | None
    peer: str
    namespace: str | None
    queues: list[str]
    is_fresh: bool = False


class Answer(lines.Answer, frozen=True, kw_only=True):
    """`may_read` has a word for each queue."""

    name: str = ""
    namespace: str = ""
    may_read: list[bool] = []  # noqa: RUF012  # msgspec makes a new one for each
