"""A server as one would run it for others: logins, TLS from an authority of one's own, tokens of an issuer."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import jwt
import trustme
from tests.support.cli import penstock
from tests.support.live_server import LiveServer, live_server

PASSWORD = "correct horse battery"
SECRET = "a secret that is long enough to sign tokens"
ROLES = ("admin", "producer", "consumer", "read-only")
"""of which there is a user each, of the same name, with PASSWORD"""


@dataclass(frozen=True, slots=True)
class SecureServer:
    server: LiveServer
    ca_file: Path
    other_ca_file: Path
    """of an authority that has signed nothing here"""

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.server.ports['http']}"

    @property
    def mqtt(self) -> str:
        return f"mqtts://127.0.0.1:{self.server.ports['mqtts']}"

    def token(self, user: str, lasts_s: float = 3600.0) -> str:
        return jwt.encode({"sub": user, "exp": int(time.time() + lasts_s)}, SECRET, "HS256")


@contextmanager
def secure_server(directory: Path) -> Iterator[SecureServer]:
    directory.mkdir(exist_ok=True)
    for role in ROLES:
        penstock("user", "add", role, "--role", role, "--data", directory / "data", given=PASSWORD.encode())
    authority, file = trustme.CA(), directory / "server.pem"
    authority.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(file))
    tls = json.dumps({"certificate": str(file), "key": str(file)})
    (directory / "secret").write_text(SECRET)
    settings = [
        "storage.disk_reserve=0",
        "listeners.mqtt=null",
        f"listeners.mqtts.tls={tls}",
        "listeners.mqtts.port=0",
        f"listeners.http.tls={tls}",
        f"auth.jwt={json.dumps({'algorithm': 'HS256', 'secret_file': str(directory / 'secret')})}",
    ]
    with live_server(directory, settings, is_dev=False) as server:
        yield SecureServer(server, _pem(authority, directory / "ca.pem"), _pem(trustme.CA(), directory / "other.pem"))


def _pem(authority: trustme.CA, file: Path) -> Path:
    authority.cert_pem.write_to_path(str(file))
    return file
