"""What a server of HTTP says no with: problem documents (RFC 9457) as errors."""

from __future__ import annotations

import msgspec

from penstock.client.errors import Refused
from penstock.core.errors import ErrorCode

PROBLEM = "application/problem+json"
# Nothing was done, and the same may be done later.
_PASSING = frozenset({408, 429, 502, 503, 504})
_SHOWN_CHARACTERS = 200
_CODES = {code.value: code for code in ErrorCode}
_ADVICE = {
    401: "give a token, an API key, or user name and password",
    403: "log in as a user who may do this, or have it allowed",
    404: "check the name and the URL",
    413: "send less at a time",
    429: "send less, or try again later",
    502: "look at the proxy in front of the server",
    503: "try again later",
    504: "look at the proxy in front of the server",
    507: "free space on the server's disk",
}


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """As servers write it; all of it may be missing where a proxy answers."""

    status: int = 0
    title: str = ""
    detail: str = ""
    code: str = ""
    instance: str = ""
    field: str | None = None
    help: str | None = None
    retry_after_s: float | None = None


class HttpRefused(Refused):
    """By a status. `code` is the server's error where it is one of Penstock's, `problem` the same as text, and there
    for HTTP's own too (`not-found`); `field` is the part of the request that is meant."""

    def __init__(self, what: str, status: int, problem: Problem) -> None:
        super().__init__(_text(what, status, problem))
        self.what, self.status, self.problem = what, status, problem.code
        self.detail, self.field, self.request_id = problem.detail, problem.field, problem.instance
        self.help = problem.help
        self.retry_after_s = problem.retry_after_s
        self.code = _CODES.get(problem.code, ErrorCode.REFUSED)

    @property
    def is_passing(self) -> bool:
        return self.status in _PASSING


def refusal(what: str, status: int, headers: dict[str, str], body: bytes) -> HttpRefused:
    """Of an answer to `what`, a method and a URL."""
    problem = _problem(headers, body)
    after = headers.get("retry-after", "")
    if after.isascii() and after.isdigit():
        problem = msgspec.structs.replace(problem, retry_after_s=float(after[:9]))
    return HttpRefused(what, status, problem)


def _problem(headers: dict[str, str], body: bytes) -> Problem:
    request_id = headers.get("penstock-request-id", "")
    if headers.get("content-type", "").startswith(PROBLEM):
        try:
            return msgspec.json.decode(body, type=Problem)
        except msgspec.DecodeError:
            return Problem(detail="with a problem that cannot be read", instance=request_id)
    said = body[:_SHOWN_CHARACTERS].decode(errors="replace").strip()
    return Problem(detail=said if said.isprintable() else "", instance=request_id)


def _text(what: str, status: int, problem: Problem) -> str:
    said = [f"the server refused {what} ({status}{f' {problem.code}' if problem.code else ''})"]
    if problem.detail:
        said.append(f": {problem.detail}")
    # What Penstock itself says ends with what to do.
    if advice := problem.help or ("" if problem.code and problem.detail else _ADVICE.get(status, "")):
        said.append(f"; {advice}")
    if problem.instance:
        said.append(f" [request {problem.instance}]")
    return "".join(said)
