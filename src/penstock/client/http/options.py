"""Where a server is, who asks, and how hard to try."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from penstock.core.errors import InvalidArgument, PenstockError

URL = "http://127.0.0.1:8080"
API = "/api/v1"
_PORTS = {"http": 80, "https": 443}

Connect = Callable[[asyncio.Protocol], Awaitable[None]]
"""makes a connection for the protocol, in another way than by the URL"""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """`ca_file` is the authority to trust, None the system's; certificate and key say who the client is.
    `server_certificate_file` is the certificate that the server itself has: nothing else is trusted, under whatever
    name the server is reached. That is for who shares a machine with it, and reads the file as it is now."""

    ca_file: Path | str | None = None
    certificate_file: Path | str | None = None
    key_file: Path | str | None = None
    server_certificate_file: Path | str | None = None

    def context(self) -> ssl.SSLContext:
        """InvalidArgument if a file cannot be used."""
        try:
            context = self._trusting()
            if self.certificate_file is not None:
                context.load_cert_chain(self.certificate_file, self.key_file)
        except (OSError, ssl.SSLError, ValueError) as error:
            raise InvalidArgument(
                f"the files for TLS cannot be used ({error}): give PEM files that this user may read"
            ) from error
        return context

    def _trusting(self) -> ssl.SSLContext:
        if self.ca_file is not None or self.server_certificate_file is None:
            return ssl.create_default_context(cafile=self.ca_file)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # It is this certificate or none: a name would add nothing.
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(cadata=_first_certificate(Path(self.server_certificate_file)))
        return context


def _first_certificate(file: Path) -> str:
    """That of the server; those behind it signed it, and others too."""
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    _, found, rest = file.read_text(encoding="ascii", errors="replace").partition(begin)
    if not found or end not in rest:
        raise ValueError(f"{file} has no certificate in PEM")
    return begin + rest.partition(end)[0] + end


@dataclass(frozen=True, slots=True)
class Retries:
    """Each failure doubles the wait, up to the longest; the wait is drawn from its upper half, so that the clients of a
    server that comes back do not all come at once. A server that says how long to wait is given that long, if it is
    not over `longest_asked_s`."""

    attempts: int = 5
    """beside the first"""
    first_delay_s: float = 0.1
    longest_delay_s: float = 10.0
    longest_asked_s: float = 60.0
    notice: Callable[[PenstockError | None], None] | None = field(default=None, compare=False)
    """told of each failure that is tried again, and with None when an answer came"""


@dataclass(frozen=True, slots=True)
class HttpOptions:
    url: str = URL
    """with a path if a proxy serves it below one"""
    token: str | None = field(default=None, repr=False)
    """sent as a bearer token: a JWT or an API key"""
    api_key: str | None = field(default=None, repr=False)
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | TlsFiles | None = None
    """None trusts what the system trusts"""
    namespace: str | None = None
    """to work in another than that of the login, which admins may"""
    timeout_s: float = 30.0
    """for one try of a request, beside what the server was asked to wait"""
    connect_timeout_s: float = 10.0
    retries: Retries = Retries()
    max_connections: int = 32
    """at a time; who comes then waits. Streams of events have their own."""
    max_answer_bytes: int = 256 << 20
    """a longer one ends the connection"""
    connect: Connect | None = None

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in _PORTS or not parts.hostname:
            raise InvalidArgument(f"{self.url!r} is not the URL of a server: write it as {URL} or https://host/path")
        if parts.username or parts.query or parts.fragment:
            raise InvalidArgument("a server's URL has no user, query or fragment: give username and password apart")
        if sum([self.token is not None, self.api_key is not None, self.username is not None]) > 1:
            raise InvalidArgument("give one login: token, api_key, or username with password")
        if self.max_connections < 1 or self.timeout_s <= 0 or self.connect_timeout_s <= 0:
            raise InvalidArgument("max_connections, timeout_s and connect_timeout_s are above 0")

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        try:
            port = parts.port
        except ValueError:
            raise InvalidArgument(f"{self.url!r} has no port of 0 to 65535") from None
        return parts.hostname or "", _PORTS[parts.scheme] if port is None else port

    @property
    def base_path(self) -> str:
        return urlsplit(self.url).path.rstrip("/")

    def context(self) -> ssl.SSLContext | None:
        if urlsplit(self.url).scheme == "http":
            return None
        tls = self.tls or TlsFiles()
        return tls.context() if isinstance(tls, TlsFiles) else tls

    def head(self) -> bytes:
        """The headers of every request: the host, and who asks."""
        lines = {"Host": urlsplit(self.url).netloc, "User-Agent": "penstock-python"}
        if self.token is not None:
            lines["Authorization"] = f"Bearer {self.token}"
        elif self.api_key is not None:
            lines["X-API-Key"] = self.api_key
        elif self.username is not None:
            pair = f"{self.username}:{self.password or ''}".encode()
            lines["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        return b"".join([header_line(name, value) for name, value in lines.items()])


def header_line(name: str, value: str) -> bytes:
    """InvalidArgument for what would be more than one line."""
    if not value.isascii() or not value.isprintable():
        raise InvalidArgument(f"the header {name} takes printable ASCII only")
    return f"{name}: {value}\r\n".encode()
