"""A broker with the listeners that clients of AMQP 0.9.1 use."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import trustme
from argon2 import PasswordHasher
from tests.support.live_server import live_server
from tests.support.rabbitmq import RabbitSettings, rabbitmq
from tests.support.servers import HOST, NotInstalled

from penstock.server.config_listeners import LISTENER_NAMES

MAX_MESSAGE_BYTES = 16_515_072


@dataclass(frozen=True)
class Certificates:
    server: Path
    """with its key, as is the client's"""
    client: Path
    authority: Path


@dataclass(frozen=True)
class AmqpBroker:
    name: str
    pid: int
    port: int
    tls_port: int
    certificates: Certificates

    @property
    def is_penstock(self) -> bool:
        return self.name == "penstock"

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@{HOST}:{self.port}/%2F"

    @property
    def tls_url(self) -> str:
        return f"amqps://guest:guest@localhost:{self.tls_port}/%2F"

    def tls(self, with_client: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.certificates.authority))
        if with_client:
            context.load_cert_chain(self.certificates.client)
        return context


@contextmanager
def start_rabbitmq(directory: Path) -> Iterator[AmqpBroker]:
    certificates = make_certificates(directory)
    settings = RabbitSettings(
        lines=[
            f"max_message_size = {MAX_MESSAGE_BYTES}",
            "auth_mechanisms.1 = PLAIN",
            "auth_mechanisms.2 = AMQPLAIN",
            "auth_mechanisms.3 = EXTERNAL",
            "ssl_cert_login_from = common_name",
        ],
        plugins=["rabbitmq_auth_mechanism_ssl", "rabbitmq_consistent_hash_exchange"],
        certificate=certificates.server,
        authority=certificates.authority,
    )
    with rabbitmq(directory / "server", settings) as server:
        yield AmqpBroker("rabbitmq", server.pid, server.port, server.tls_port, certificates)


@contextmanager
def start_penstock(directory: Path) -> Iterator[AmqpBroker]:
    if "amqp" not in LISTENER_NAMES:
        raise NotInstalled("this version has no listener amqp")
    certificates = make_certificates(directory)
    tls = {
        "certificate": str(certificates.server),
        "key": str(certificates.server),
        "client_ca": str(certificates.authority),
    }
    guest = {"name": "guest", "roles": ["admin"], "password_hash": PasswordHasher(1, 64, 1).hash("guest")}
    settings = [
        "storage.disk_reserve=0",
        f"auth.users={json.dumps([guest])}",
        "rate_limit.max_connections_per_ip=0",
        "rate_limit.max_messages_per_client=0",
        "listeners.amqp.port=0",
        f"listeners.amqps.tls={json.dumps(tls)}",
        "listeners.amqps.port=0",
    ]
    with live_server(directory / "server", settings, is_dev=False) as server:
        ports = server.ports
        yield AmqpBroker("penstock", server.process.pid, ports["amqp"], ports["amqps"], certificates)


def make_certificates(directory: Path) -> Certificates:
    authority = trustme.CA()
    found = Certificates(directory / "server.pem", directory / "client.pem", directory / "ca.pem")
    authority.issue_cert("localhost", HOST).private_key_and_cert_chain_pem.write_to_path(str(found.server))
    client = authority.issue_cert("client.localhost", common_name="guest")
    client.private_key_and_cert_chain_pem.write_to_path(str(found.client))
    authority.cert_pem.write_to_path(str(found.authority))
    return found
