"""Contexts: which servers commands know."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from penstock.core.errors import InvalidArgument
from penstock.server.context import Context, Contexts, context_file, read_contexts, write_contexts, write_local


def local(password: str) -> Context:
    return Context(url="http://127.0.0.1:8080", username="admin", password=password, local=True)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return context_file({"XDG_CONFIG_HOME": str(tmp_path / "config")})


def test_the_file_is_where_xdg_says(file: Path, tmp_path: Path) -> None:
    assert file == tmp_path / "config" / "penstock" / "config.yaml"
    assert context_file({"XDG_CONFIG_HOME": "relative"}) == Path("~/.config/penstock/config.yaml").expanduser()


def test_what_was_written_is_read_back_and_is_for_its_user_alone(file: Path) -> None:
    contexts = Contexts(current_context="a", contexts={"a": local("x"), "b": Context(token="t", ca_file="/ca.pem")})
    write_contexts(file, contexts)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert read_contexts(file) == contexts
    assert list(file.parent.iterdir()) == [file]


def test_the_local_context_is_replaced_and_the_one_before_is_kept(file: Path) -> None:
    for password in ("first", "second", "third"):
        found = write_local(file, local(password))
    assert found == read_contexts(file)
    assert {name: each.password for name, each in found.contexts.items()} == {
        "local": "third",
        "local-previous": "second",
    }
    assert found.current_context == "local"


def test_a_first_start_leaves_the_current_context_of_its_user(file: Path) -> None:
    write_contexts(file, Contexts(current_context="far", contexts={"far": Context(url="https://far.example")}))
    found = write_local(file, local("x"))
    assert found.current_context == "far"
    assert set(found.contexts) == {"far", "local"}


def test_the_context_of_an_earlier_version_is_read(file: Path) -> None:
    old = {"host": "::1", "port": 8083, "username": "admin", "password": "x", "tls": True, "path": "/mqtt"}
    file.parent.mkdir(parents=True)
    (file.parent / "context.json").write_text(json.dumps(old))
    found = read_contexts(file).current
    assert found == Context(mqtt="wss://[::1]:8083/mqtt", username="admin", password="x", local=True)


@pytest.mark.parametrize("text", ["contexts: [", "contexts: {a: {urll: x}}", "current_context: 3", "[]"])
def test_a_file_that_cannot_be_read_is_named_with_what_to_do(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.raises(InvalidArgument, match=r"(?s)config\.yaml.*mend or remove it"):
        read_contexts(file)


def test_no_secret_is_in_what_a_context_looks_like() -> None:
    assert "hush" not in repr(Context(password="hush", token="hush", api_key="hush"))
