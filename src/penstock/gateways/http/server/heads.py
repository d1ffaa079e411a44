"""What of a head the parser leaves to us: version, Host, Transfer-Encoding, the form of the target (RFC 9112)."""

from __future__ import annotations

import re

import httptools

from penstock.gateways.http.server.problems import Refusal

SPOKEN = "this server speaks HTTP/1.1 and HTTP/1.0"
_VERSIONS = ("1.1", "1.0")
# reg-name, IPv4 or IPv6 address of RFC 3986, and a port.
_HOST = re.compile(rb"(?:[A-Za-z0-9._~!$&'()*+,;=%-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?")
_SCHEMES = ("http", "https")

Fields = list[tuple[bytes, bytes]]


def check_head(version: str, target: bytes, fields: Fields) -> bytes:
    """The target as path and query. Refusal for what must not be answered with anything else. `fields` have their names
    in small letters; of a target that names a host, Host becomes that one."""
    if version not in _VERSIONS:
        raise Refusal(505, "http-version", SPOKEN)
    hosts, host, codings = 0, b"", list[bytes]()
    for name, value in fields:
        if name == b"host":
            hosts, host = hosts + 1, value
        elif name == b"transfer-encoding":
            codings.append(value)
    if codings:
        _check_codings(version, codings)
    if hosts > 1 or (not hosts and version == "1.1"):
        raise _malformed(f"a request of HTTP/1.1 has one Host field, not {hosts}")
    if b"#" in target:
        raise _malformed("a request has no fragment: leave out what begins with #")
    if not target.startswith((b"/", b"*")):
        target = _absolute(target, fields)
        host = next((value for name, value in fields if name == b"host"), host)
    if hosts and not _HOST.fullmatch(host):
        raise _malformed("the field Host is not a host and port")
    return target


def _check_codings(version: str, values: list[bytes]) -> None:
    """Where a body ends must be beyond doubt."""
    codings = [coding.strip().lower() for coding in b",".join(values).split(b",")]
    if version == "1.0":
        raise _malformed("HTTP/1.0 has no Transfer-Encoding")
    if codings[-1] != b"chunked" or b"chunked" in codings[:-1]:
        raise _malformed("the last Transfer-Encoding, and no other, is chunked")
    if len(codings) > 1:
        raise Refusal(
            501,
            "not-implemented",
            "the only transfer coding that is supported is chunked: send the body without others",
        )


def _absolute(target: bytes, fields: Fields) -> bytes:
    """A target as proxies get it: what it names is the host, whatever Host says."""
    try:
        url = httptools.parse_url(target)
    except httptools.HttpParserInvalidURLError:
        raise _malformed("the target is not a URL") from None
    if url.schema is None or url.schema.decode().lower() not in _SCHEMES or not url.host or url.userinfo:
        raise _malformed("the target is a path, or a URL of http or https without a user")
    host = b"[%b]" % url.host if b":" in url.host else url.host
    named = host if url.port is None else b"%b:%d" % (host, url.port)
    fields[:] = [(name, named if name == b"host" else value) for name, value in fields]
    return (url.path or b"/") + (b"" if url.query is None else b"?" + url.query)


def _malformed(detail: str) -> Refusal:
    return Refusal(400, "malformed-request", detail)
