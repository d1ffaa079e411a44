"""Where clients connect, and what can be set of it."""

from __future__ import annotations

import ipaddress
from typing import Annotated

import msgspec

from penstock.core.errors import InvalidArgument, InvalidSetting
from penstock.core.settings.kind import Kind
from penstock.core.settings.numbers import Count
from penstock.core.settings.texts import ListOf, Text
from penstock.core.settings.words import Flag
from penstock.gateways.wire.origins import Origins

LISTENER_NAMES = ("mqtt", "mqtts", "mqtt_ws", "mqtt_wss", "amqp", "amqps", "amqp_ws", "http", "rabbitmq_api")
_NEED_TLS = ("mqtts", "mqtt_wss", "amqps")
_OPEN_TO_ALL = (
    "{} can be reached from other machines, and development mode lets everybody in: listen on 127.0.0.1 without a "
    "proxy, or switch auth.development_mode (--dev) off"
)


class _Section(msgspec.Struct, frozen=True, kw_only=True):
    """What every section is."""


def check_host(text: str) -> None:
    if not text or not text.isprintable() or any(mark in text for mark in " /[]"):
        raise InvalidArgument(f"{text[:80]!r} is not an address: write it like 127.0.0.1, ::1 or a host's name")


def check_path(text: str) -> None:
    if not text or "\0" in text:
        raise InvalidArgument("is empty: write the path of a file or directory")


def _check_url_path(text: str) -> None:
    if not text.startswith("/") or not text.isascii() or not text.isprintable() or " " in text:
        raise InvalidArgument(f"{text[:80]!r} is not the path of an address: write it like /mqtt")


def _check_origin(text: str) -> None:
    Origins([text])


class NotInThisVersion(Kind):
    """A listener that has its name already."""

    def read(self, path: str, written: object) -> None:
        if written is not None:
            raise InvalidSetting(path, "this listener is not in this version: leave it out, or write null")

    def allowed(self) -> str:
        return "`null`"


class SniCertificate(_Section, frozen=True, kw_only=True):
    hostnames: Annotated[tuple[str, ...], ListOf(Text(check_host))]
    """names that clients ask for; `*.example.com` is any name one level below"""
    certificate: Annotated[str, Text(check_path)]
    """file with the certificate and its chain, PEM"""
    key: Annotated[str, Text(check_path)]
    """file with the private key, PEM"""


class Tls(_Section, frozen=True, kw_only=True):
    certificate: Annotated[str, Text(check_path)]
    """file with the certificate and its chain, PEM"""
    key: Annotated[str, Text(check_path)]
    """file with the private key, PEM"""
    client_ca: Annotated[str | None, Text(check_path, or_none=True)] = None
    """file with the authorities that certificates of clients must come from, PEM; without it clients are not asked for
    one"""
    require_client_certificate: Annotated[bool, Flag()] = False
    """refuse clients without a certificate"""
    certificate_identity: Annotated[bool, Flag()] = True
    """a verified certificate of a client is its login; false: it needs a login beside it"""
    sni: tuple[SniCertificate, ...] = ()
    """other certificates, by the host name that a client asks for"""


class Listener(_Section, frozen=True, kw_only=True):
    host: Annotated[str, Text(check_host)] = "127.0.0.1"
    """address to listen on; 0.0.0.0 and :: are all addresses of this machine"""
    port: Annotated[int, Count(0, 65_535)] = 0
    """port to listen on; 0 picks a free one, which the ready file names"""
    tls: Tls | None = None
    """TLS 1.2 or newer"""
    proxy_protocol: Annotated[bool, Flag()] = False
    """connections come through a proxy that announces the client's address (PROXY protocol 1 or 2); others are
    refused"""


class MqttListener(Listener, frozen=True, kw_only=True):
    port: Annotated[int, Count(0, 65_535)] = 1883


class MqttsListener(Listener, frozen=True, kw_only=True):
    port: Annotated[int, Count(0, 65_535)] = 8883


class WebSocketListener(Listener, frozen=True, kw_only=True):
    port: Annotated[int, Count(0, 65_535)] = 8083
    path: Annotated[str, Text(_check_url_path)] = "/mqtt"
    """path of the WebSocket URL"""
    allowed_origins: Annotated[tuple[str, ...], ListOf(Text(_check_origin))] = ()
    """pages that may connect, like https://example.com or https://*.example.com; an empty list: pages of the same
    origin, and clients that are no browser"""


class SecureWebSocketListener(WebSocketListener, frozen=True, kw_only=True):
    port: Annotated[int, Count(0, 65_535)] = 8084


class AmqpListener(Listener, frozen=True, kw_only=True):
    port: Annotated[int, Count(0, 65_535)] = 5672


class AmqpsListener(Listener, frozen=True, kw_only=True):
    port: Annotated[int, Count(0, 65_535)] = 5671


class AmqpWebSocketListener(WebSocketListener, frozen=True, kw_only=True):
    port: Annotated[int, Count(0, 65_535)] = 15678
    path: Annotated[str, Text(_check_url_path)] = "/amqp"
    """path of the WebSocket URL"""


class HttpListener(Listener, frozen=True, kw_only=True):
    port: Annotated[int, Count(0, 65_535)] = 8080


class RabbitListener(Listener, frozen=True, kw_only=True):
    port: Annotated[int, Count(0, 65_535)] = 15672


class FlightListener(Listener, frozen=True, kw_only=True):
    port: Annotated[int, Count(0, 65_535)] = 8815
    max_streams: Annotated[int, Count(1, 1000)] = 32
    """tables that are read or written at a time; each takes up to 64 MiB, more with record batches over 10 MiB"""
    max_streams_per_client: Annotated[int, Count(1, 1000)] = 8
    """streams of one user at one address"""


class Listeners(_Section, frozen=True, kw_only=True):
    mqtt: MqttListener | None = MqttListener()
    """MQTT 3.1.1 and 5 over TCP"""
    mqtts: MqttsListener | None = None
    """the same over TLS; needs `tls`"""
    mqtt_ws: WebSocketListener | None = WebSocketListener()
    """MQTT over WebSocket"""
    mqtt_wss: SecureWebSocketListener | None = None
    """the same over TLS; needs `tls`"""
    amqp: AmqpListener | None = None
    """AMQP 0.9.1 over TCP; `amqp: {}` switches it on"""
    amqps: AmqpsListener | None = None
    """the same over TLS; needs `tls`"""
    amqp_ws: AmqpWebSocketListener | None = None
    """AMQP over WebSocket; over TLS with `tls`"""
    http: HttpListener | None = HttpListener()
    """REST, event streams, metrics, probes; over TLS with `tls`"""
    rabbitmq_api: RabbitListener | None = None
    """a subset of RabbitMQ's management API, for its tools; over TLS with `tls`"""
    grpc: Annotated[None, NotInThisVersion()] = None
    """not in this version"""
    flight: FlightListener | None = None
    """Arrow Flight: queues as tables, served by a process of its own; over TLS with `tls`; needs the extra `arrow`"""
    coap: Annotated[None, NotInThisVersion()] = None
    """not in this version"""

    def all_switched_on(self) -> dict[str, Listener]:
        """That of Flight too, which has a process of its own."""
        return self.switched_on() | ({} if self.flight is None else {"flight": self.flight})

    def switched_on(self) -> dict[str, Listener]:
        found = {name: getattr(self, name) for name in LISTENER_NAMES}
        return {name: listener for name, listener in found.items() if listener is not None}


def is_loopback(listener: Listener) -> bool:
    """Whoever connects is on this machine. Names other than localhost are not looked up: they may move."""
    if listener.proxy_protocol:
        return False
    try:
        return ipaddress.ip_address(listener.host).is_loopback
    except ValueError:
        return listener.host == "localhost"


def contradiction(name: str, listener: Listener, is_development: bool) -> tuple[str, str] | None:
    """The key below the listener's that does not go with others, and why."""
    tls = listener.tls
    if tls is None and name in _NEED_TLS:
        return "tls", "is missing: write tls: {certificate: …, key: …}"
    if tls is not None and tls.require_client_certificate and tls.client_ca is None:
        return "tls.require_client_certificate", "needs client_ca: name the file of the authority to trust"
    if is_development and not is_loopback(listener):
        return "host", _OPEN_TO_ALL.format(listener.host)
    return _not_of_flight(listener) if isinstance(listener, FlightListener) else None


def _not_of_flight(listener: FlightListener) -> tuple[str, str] | None:
    tls = listener.tls
    if listener.proxy_protocol:
        return "proxy_protocol", "is not there for Flight: leave it out"
    if tls is not None and tls.sni:
        return "tls.sni", "is not there for Flight, which has one certificate: leave it out"
    if (
        tls is not None
        and tls.client_ca is not None
        and (tls.certificate_identity or not tls.require_client_certificate)
    ):
        return "tls.client_ca", (
            "lets nobody in by itself here: write require_client_certificate: true and certificate_identity: false, "
            "callers need a login beside their certificate"
        )
    return None
