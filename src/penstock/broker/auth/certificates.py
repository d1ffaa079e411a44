"""The name in a client certificate that a listener has verified."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.broker.auth.identity import Certificate
from penstock.broker.auth.options import CertificateName
from penstock.broker.auth.rules import check_name
from penstock.core.errors import BadCredentials, InvalidArgument

_ALTERNATIVES: dict[CertificateName, str] = {"dns": "DNS", "email": "email", "uri": "URI"}


def name_in(certificate: Certificate, which: CertificateName) -> str:
    """BadCredentials unless there is exactly one such name, one that a user can have."""
    kind = _ALTERNATIVES.get(which)
    found = list(_common_names(certificate) if kind is None else _alternatives(certificate, kind))
    if len(found) != 1:
        raise BadCredentials(f"the client certificate has {len(found)} names of the kind {which}, one is needed")
    try:
        check_name(found[0])
    except InvalidArgument as error:
        raise BadCredentials(f"the client certificate: {error}") from None
    return found[0]


def _common_names(certificate: Certificate) -> Iterator[str]:
    """`subject` is a tuple of sets of (name, value), as ssl has it."""
    for part in _tuple(certificate.get("subject")):
        for pair in _tuple(part):
            match pair:
                case ("commonName", str(name)):
                    yield name


def _alternatives(certificate: Certificate, kind: str) -> Iterator[str]:
    for pair in _tuple(certificate.get("subjectAltName")):
        match pair:
            case (str(found), str(name)) if found == kind:
                yield name


def _tuple(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else ()
