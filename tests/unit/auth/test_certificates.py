from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trustme

from penstock.broker.auth.certificates import name_in
from penstock.broker.auth.identity import Certificate
from penstock.broker.auth.options import CertificateName
from penstock.core.errors import BadCredentials


def seen_by_server(tmp_path: Path, *identities: str, common_name: str | None) -> Certificate:
    """What ssl tells of a client certificate after a real handshake in memory."""
    authority = trustme.CA()
    servers, clients = authority.issue_cert("localhost"), authority.issue_cert(*identities, common_name=common_name)
    server_context, client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    for context, certificate in ((server_context, servers), (client_context, clients)):
        certificate.configure_cert(context)
        authority.configure_trust(context)
    server_context.verify_mode = ssl.CERT_REQUIRED
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context.wrap_bio(up, down, server_side=True)
    client = client_context.wrap_bio(down, up, server_hostname="localhost")
    waiting: list[ssl.SSLObject] = [client, server]
    while waiting:
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                continue
    found = server.getpeercert()
    assert found is not None
    return dict(found)


@pytest.mark.parametrize(
    ("which", "name"),
    [("common-name", "pump-7"), ("dns", "pump-7.example.org"), ("email", "pump@example.org")],
)
def test_the_name_is_taken_from_where_the_option_says(tmp_path: Path, which: CertificateName, name: str) -> None:
    certificate = seen_by_server(tmp_path, "pump-7.example.org", "pump@example.org", common_name="pump-7")
    assert name_in(certificate, which) == name


def test_a_uri_is_a_name_too() -> None:
    assert name_in({"subjectAltName": (("URI", "spiffe://x/y"), ("DNS", "a"))}, "uri") == "spiffe://x/y"


@pytest.mark.parametrize(
    "certificate",
    [
        {},
        {"subject": ((("organizationName", "x"),),)},
        {"subject": ((("commonName", "a"),), (("commonName", "b"),))},
        {"subject": ((("commonName", "a\nb"),),)},
        {"subject": ((("commonName", ""),),)},
    ],
)
def test_a_certificate_without_one_good_name_is_no_login(certificate: Certificate) -> None:
    with pytest.raises(BadCredentials):
        name_in(certificate, "common-name")
