"""Which pages of browsers may come: a browser connects to any server that a page names, and sends the page's origin.
One rule for every gateway that speaks HTTP."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from functools import lru_cache

from penstock.core.errors import InvalidArgument

ANY = "*"
_DEFAULT_PORTS = {"http": "80", "https": "443"}
# scheme://host[:port], the host perhaps an address in brackets; a pattern may leave the scheme out and begin with `*.`.
_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://([^/:\[\]@?#]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?")
_HOST = re.compile(r"([^/:\[\]@?#]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")
_PATTERN = re.compile(r"(?:([a-z][a-z0-9+.-]*)://)?(\*\.)?([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?")


class Origins:
    """`https://app.example.com`, `https://*.example.com` (its subdomains, not itself), `*.example.com` (any scheme) and
    `*` (all). InvalidArgument for what is no origin."""

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        self._is_any = ANY in allowed
        self._patterns = [_compiled(text) for text in allowed if text != ANY]

    def allow(self, origin: str | None, host: str) -> bool:
        """`origin` and `host` are the headers of those names. Where no origin is listed, a page may come from the
        server's own host. Whoever sends no origin is no browser and passes: it could say what it likes."""
        if origin is None or self.is_listed(origin):
            return True
        return not self._patterns and is_same(origin, host)

    def is_listed(self, origin: str) -> bool:
        if self._is_any:
            return True
        whole = _whole(origin)
        return whole is not None and any(pattern.fullmatch(whole) for pattern in self._patterns)


def is_same(origin: str, host: str) -> bool:
    """Whether a page comes from the server that it calls. Says nothing of whose name that is: a page can make its own
    name point to this machine, so where there is no login, ask is_this_machine() too."""
    whole = _whole(origin)
    scheme = origin.lower().partition("://")[0]
    return whole is not None and whole == f"{scheme}://{_with_port(host.lower(), scheme)}"


@lru_cache(maxsize=1024)
def is_this_machine(host: str) -> bool:
    """Whether a Host header names this machine, in a way that no page can give to itself: localhost, 127.0.0.0/8 or
    [::1], whatever the port."""
    match = _HOST.fullmatch(host.lower())
    if match is None:
        return False
    name = match[1]
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False


def _whole(origin: str) -> str | None:
    """With its port; None for what is none, like `null`."""
    match = _ORIGIN.fullmatch(origin.lower())
    return match and f"{match[1]}://{match[2]}:{match[3] or _DEFAULT_PORTS.get(match[1], '')}"


def _compiled(text: str) -> re.Pattern[str]:
    match = _PATTERN.fullmatch(text.lower())
    if match is None:
        raise InvalidArgument(
            f"{text!r} is not an origin: write it like https://app.example.com, https://*.example.com or *"
        )
    scheme, wildcard, name, port = match.groups()
    schemes = "[a-z][a-z0-9+.-]*" if scheme is None else re.escape(scheme)
    subdomains = r"(?:[^/:\[\]]+\.)" if wildcard else ""
    port = port or _DEFAULT_PORTS.get(scheme or "")
    ports = "[0-9]*" if port is None else port
    return re.compile(f"{schemes}://{subdomains}{re.escape(name)}:{ports}")


def _with_port(host: str, scheme: str) -> str:
    """A Host header leaves out the usual port, as the origin does. The scheme is the page's: behind a proxy that ends
    TLS, this server does not know its own."""
    has_port = host.rpartition(":")[2].isdecimal() and not host.endswith("]")
    return host if has_port else f"{host}:{_DEFAULT_PORTS.get(scheme, '')}"
