"""Which pages may open a WebSocket: a browser connects to any server that a page names, and sends the page's origin."""

from __future__ import annotations

import re
from collections.abc import Sequence

from penstock.core.errors import InvalidArgument

ANY = "*"
_DEFAULT_PORTS = {"http": "80", "https": "443"}
# scheme://host[:port], the host perhaps an address in brackets; a pattern may leave the scheme out and begin with `*.`.
_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://([^/:\[\]@?#]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?")
_PATTERN = re.compile(r"(?:([a-z][a-z0-9+.-]*)://)?(\*\.)?([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?")


class Origins:
    """`https://app.example.com`, `https://*.example.com` (its subdomains, not itself), `*.example.com` (any scheme) and
    `*` (all). Without any, a page may come from the server's own host. Whoever sends no origin is no browser and
    passes: it could say what it likes. InvalidArgument for what is no origin."""

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        self._is_any = ANY in allowed
        self._patterns = [_compiled(text) for text in allowed if text != ANY]

    def allow(self, origin: str | None, host: str) -> bool:
        """`origin` and `host` are the headers of those names."""
        if origin is None or self._is_any:
            return True
        if (match := _ORIGIN.fullmatch(origin.lower())) is None:
            return False
        scheme, name, port = match[1], match[2], match[3] or _DEFAULT_PORTS.get(match[1], "")
        if not self._patterns:
            return _with_port(host.lower(), scheme) == f"{name}:{port}"
        return any(pattern.fullmatch(f"{scheme}://{name}:{port}") for pattern in self._patterns)


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
