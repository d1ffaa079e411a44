"""A server as options name it: where its Arrow Flight listener is, who asks, how long to wait for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from penstock.client.flight import FlightClient
from penstock.core.errors import InvalidArgument
from penstock.spark.option_values import count

NAMES: Final = ("url", "token", "user", "password", "tlsCa", "waitSeconds")
"""The options that are read here."""

SCHEMES: Final = ("grpc://", "grpc+tls://")
# A broker that restarts is back within seconds; a queue that is full may wait for people.
USUAL_WAIT_S = 300


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Picklable: it travels to the executors, with the certificates that were read on the driver."""

    url: str
    token: str | None = field(default=None, repr=False)
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ca: bytes | None = field(default=None, repr=False)
    wait_s: float = USUAL_WAIT_S

    def connect(self) -> FlightClient:
        return FlightClient(self.url, token=self.token, user=self.user, password=self.password, ca=self.ca)


def is_flight(url: str) -> bool:
    return url.strip().lower().startswith(SCHEMES)


def parse_address(given: Mapping[str, str]) -> ServerAddress:
    """Of options that have a url. InvalidArgument names the option."""
    url = given["url"].strip()
    if not is_flight(url):
        raise InvalidArgument(
            f"option url: {url!r} is not the address of an Arrow Flight listener: write it like "
            f"grpc://127.0.0.1:8815, or grpc+tls://… for one with TLS; the server's listeners.flight says which port"
        )
    _check_login(given)
    wait_s = count(given, "waitSeconds", least=0)
    return ServerAddress(
        url,
        given.get("token"),
        given.get("user"),
        given.get("password"),
        _certificates(given, url),
        USUAL_WAIT_S if wait_s is None else wait_s,
    )


def _check_login(given: Mapping[str, str]) -> None:
    if "token" in given and ("user" in given or "password" in given):
        raise InvalidArgument("options token and user both say who asks: leave one out")
    if ("user" in given) != ("password" in given):
        raise InvalidArgument("options user and password go together: give both, or a token")


def _certificates(given: Mapping[str, str], url: str) -> bytes | None:
    if (path := given.get("tlsCa")) is None:
        return None
    if not url.lower().startswith("grpc+tls://"):
        raise InvalidArgument("option tlsCa has no meaning without TLS: write the url as grpc+tls://…, or leave it out")
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidArgument(f"option tlsCa: {path} cannot be read ({error.strerror})") from error
