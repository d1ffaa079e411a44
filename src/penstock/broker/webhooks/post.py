"""One HTTP request, beside the loop."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from email.message import Message
from typing import IO, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

T = TypeVar("T")

# Of the client errors, those that another try may mend.
_WORTH_ANOTHER_TRY = (408, 425, 429)


class Failure(NamedTuple):
    reason: str
    is_final: bool
    """another try would fail the same way"""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirected POST would become a GET without its body, and go where nobody configured it to."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirects)


def post(url: str, body: bytes, headers: Mapping[str, str], timeout_s: float) -> Failure | None:
    """Blocks. None if the answer is 2xx; what the answer says beside that is not looked at. A login in the address goes
    as `Authorization`, unless `headers` have one. A failure repeats nothing of the address but its host."""
    try:
        url, login = _without_login(url)
        request = urllib.request.Request(url, body, {**login, **headers}, method="POST")
        with _opener.open(request, timeout=timeout_s):
            return None
    except urllib.error.HTTPError as error:
        error.close()
        is_final = error.code < 500 and error.code not in _WORTH_ANOTHER_TRY
        return Failure(f"answer {error.code}", is_final)
    except OSError as error:
        return Failure(f"{type(error).__name__}: {error}", False)
    except http.client.HTTPException as error:
        return Failure(type(error).__name__, isinstance(error, http.client.InvalidURL))
    except Exception as error:
        # Whatever it is, it concerns this receiver only, which would be waited for without end.
        return Failure(type(error).__name__, True)


def _without_login(url: str) -> tuple[str, dict[str, str]]:
    """The address as it is asked for, and the header that `user:password@` in it stands for."""
    parts = urlsplit(url)
    login, at, place = parts.netloc.rpartition("@")
    if not at:
        return url, {}
    user, _, password = login.partition(":")
    pair = base64.b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()
    return urlunsplit(parts._replace(netloc=place)), {"Authorization": f"Basic {pair}"}


async def beside(call: Callable[[], T]) -> T:
    """In a thread of its own that the end of the process does not wait for: a receiver that does not answer must not
    hold up a pool that files are read with, nor a stop."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def give(result: T) -> None:
        if not future.done():
            future.set_result(result)

    def run() -> None:
        result = call()
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(give, result)

    threading.Thread(target=run, name="penstock-webhook", daemon=True).start()
    return await future
