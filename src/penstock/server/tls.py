"""TLS contexts of listeners: TLS 1.2 and newer, certificates by host name, certificates of clients."""

from __future__ import annotations

import ssl
from pathlib import Path

from penstock.server.config_listeners import Tls
from penstock.server.written import BadConfiguration


class HostContexts:
    """Contexts by host name; `*.example.com` is any name one level below."""

    def __init__(self) -> None:
        self._contexts: dict[str, ssl.SSLContext] = {}

    def put(self, hostname: str, context: ssl.SSLContext) -> None:
        self._contexts[hostname.lower()] = context

    def find(self, hostname: str) -> ssl.SSLContext | None:
        name = hostname.lower().rstrip(".")
        return self._contexts.get(name) or self._contexts.get(f"*.{name.partition('.')[2]}")

    def choose(self, connection: ssl.SSLSocket | ssl.SSLObject, hostname: str | None, _: ssl.SSLContext) -> None:
        """During a handshake; the listener's own certificate stays for a name that nobody has."""
        if hostname is not None and (found := self.find(hostname)) is not None:
            connection.context = found


def context_of(tls: Tls, path: str) -> ssl.SSLContext:
    """BadConfiguration, with `path` as the key, for files that are missing or do not fit together."""
    context = _context(tls, tls.certificate, tls.key, path)
    if tls.sni:
        hosts = HostContexts()
        for number, other in enumerate(tls.sni):
            below = _context(tls, other.certificate, other.key, f"{path}.sni[{number}]", path)
            for hostname in other.hostnames:
                hosts.put(hostname, below)
        context.sni_callback = hosts.choose
    return context


def _context(tls: Tls, certificate: str, key: str, path: str, ca_path: str | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    _check_file(certificate, f"{path}.certificate")
    _check_file(key, f"{path}.key")
    try:
        # An empty password instead of the question for one, which would wait on a terminal that is not there.
        context.load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, ValueError) as error:
        reason = f"{certificate} and {key} are not a certificate and its key without password, in PEM ({_why(error)})"
        raise BadConfiguration(f"{path}.certificate", reason) from None
    if tls.client_ca is not None:
        _trust(context, tls, tls.client_ca, f"{ca_path or path}.client_ca")
    return context


def _trust(context: ssl.SSLContext, tls: Tls, client_ca: str, path: str) -> None:
    _check_file(client_ca, path)
    try:
        context.load_verify_locations(client_ca)
    except ssl.SSLError as error:
        raise BadConfiguration(path, f"{client_ca} holds no certificates in PEM ({_why(error)})") from None
    context.verify_mode = ssl.CERT_REQUIRED if tls.require_client_certificate else ssl.CERT_OPTIONAL


def _check_file(file: str, path: str) -> None:
    try:
        with Path(file).open("rb"):
            return
    except OSError as error:
        raise BadConfiguration(path, f"{file} cannot be read: {error.strerror}; check the path") from None


def _why(error: Exception) -> str:
    return getattr(error, "reason", None) or str(error)
