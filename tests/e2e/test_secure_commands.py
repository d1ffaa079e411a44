"""Commands at a server with logins, roles and TLS of an authority of one's own: each family does what the role may, and
what goes wrong is said with an exit code of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.commands import Ran, run_here
from tests.support.secure_server import PASSWORD, ROLES, SecureServer

FAILED, NOT_REACHED = 1, 4


class Person:
    """Has a context of the role's login, and types commands."""

    def __init__(self, secured: SecureServer, place: Path, *login: str) -> None:
        self.variables = {"XDG_CONFIG_HOME": str(place / "config")}
        place.mkdir(exist_ok=True)
        self.lines = place / "lines"
        self.lines.write_text("one\n")
        where = ["--url", secured.url, "--mqtt", secured.mqtt, "--ca-file", str(secured.ca_file)]
        assert self.types("context", "set", "it", *where, *login).code == 0

    def types(self, *words: str) -> Ran:
        return run_here(*words, given=self.lines, variables=self.variables)

    def does(self, *words: str) -> str:
        ran = self.types(*words)
        assert ran.code == 0, (words, ran)
        return ran.out.decode()

    def fails(self, code: int, *words: str) -> str:
        ran = self.types(*words)
        assert (ran.code, ran.out) == (code, b""), (words, ran)
        assert ran.err.startswith("penstock: error: ") and ran.err.count("\n") == 1
        return ran.err


@pytest.fixture
def admin(secured: SecureServer, tmp_path: Path) -> Person:
    return Person(secured, tmp_path, "--token", secured.token("admin"))


FAMILIES = {
    ("produce", "q", "x"): {"admin", "producer"},
    ("publish", "a/topic", "x"): {"admin", "producer"},
    ("publish", "$queue/q", "x"): {"admin", "producer"},
    ("consume", "q", "--max", "1"): {"admin", "consumer", "read-only"},
    ("consume", "q", "--group", "g", "--max", "1"): {"admin", "consumer"},
    ("subscribe", "kept", "--count", "1"): {"admin", "consumer"},
    ("queue", "list"): set(ROLES),
    ("queue", "describe", "q"): set(ROLES),
    ("queue", "create", "q2", "--if-absent"): {"admin"},
    ("queue", "purge", "q", "--dry-run"): {"admin"},
    ("group", "list"): {"admin", "read-only"},
    ("group", "delete", "q", "g", "--dry-run"): {"admin"},
    ("dlq", "list"): {"admin", "read-only"},
    ("dlq", "list", "q"): {"admin", "consumer", "read-only"},
    ("client", "list"): {"admin", "read-only"},
    ("config", "view"): {"admin"},
    ("config", "log-level", "info"): {"admin"},
    ("user", "list"): {"admin"},
    ("key", "list"): {"admin"},
    ("acl", "list"): {"admin"},
    ("top", "--once", "--interval", "0.1"): {"admin", "read-only"},
}


@pytest.mark.parametrize("role", ROLES)
def test_a_role_may_what_it_is_for_and_is_told_what_it_lacks(
    secured: SecureServer, admin: Person, tmp_path: Path, role: str
) -> None:
    admin.does("queue", "create", "q", "--partitions", "1", "--if-absent")
    admin.does("produce", "q", "x")
    admin.does("publish", "kept", "x", "--retain")
    admin.types("group", "create", "q", "g")
    password = tmp_path / "password"
    password.write_text(PASSWORD)
    person = Person(secured, tmp_path / role, "-u", role, "--password-file", str(password))
    for words, roles in FAMILIES.items():
        if role in roles:
            person.does(*words)
        else:
            said = person.fails(FAILED, *words)
            assert ("not" in said and "allow" in said) or "may not" in said, (words, said)
    admin.does("queue", "delete", "q", "--yes")


@pytest.mark.parametrize("login", ["token", "api-key", "password"])
def test_every_login_of_a_context_works_over_both_protocols(
    secured: SecureServer, admin: Person, tmp_path: Path, login: str
) -> None:
    (tmp_path / "secret").write_text(PASSWORD)
    key = admin.does("key", "create", "--role", "admin", "-o", "yaml").rpartition("secret: ")[2].strip()
    arguments = {
        "token": ["--token", secured.token("admin")],
        "api-key": ["--api-key", key],
        "password": ["-u", "admin", "--password-file", str(tmp_path / "secret")],
    }
    person = Person(secured, tmp_path / "person", *arguments[login])
    assert "admin" in person.does("user", "list")
    person.does("publish", "a/topic", "x")


def test_a_certificate_of_another_authority_is_not_trusted(secured: SecureServer, admin: Person) -> None:
    other = str(secured.other_ca_file)
    for words in (["queue", "list"], ["produce", "q", "x"], ["top", "--once"]):
        said = admin.fails(NOT_REACHED, *words, "--ca-file", other)
        assert "is not trusted" in said and "--ca-file" in said
    assert "is not trusted" in admin.fails(NOT_REACHED, "publish", "a", "x", "--ca-file", other)
    # Of another server the context says nothing, though it is the same one by another name.
    elsewhere = secured.url.replace("127.0.0.1", "localhost")
    assert "is not trusted" in admin.fails(NOT_REACHED, "queue", "list", "--url", elsewhere)
    assert "PEM" in admin.fails(FAILED, "queue", "list", "--ca-file", str(admin.lines))


def test_a_wrong_or_missing_login_is_refused_with_what_to_do(secured: SecureServer, admin: Person) -> None:
    trusting = ["--url", secured.url, "--ca-file", str(secured.ca_file)]
    for token in ("rubbish", secured.token("admin", lasts_s=-3600), "psk_000000000000_rubbish"):
        said = admin.fails(FAILED, "queue", "list", *trusting, "--token", token)
        assert "--token" in said and "context" in said
        assert token not in said
    nobody = Person(secured, admin.lines.parent / "nobody")
    assert "--token" in nobody.fails(FAILED, "queue", "list")
    password = admin.lines.with_name("password")
    password.write_text("wrong")
    said = admin.fails(FAILED, "publish", "a", "x", "-u", "admin", "--password-file", str(password))
    assert "password" in said


def test_plain_text_to_a_port_of_tls_is_explained(secured: SecureServer, admin: Person) -> None:
    said = admin.fails(NOT_REACHED, "queue", "list", "--url", secured.url.replace("https", "http"))
    assert "https" in said
