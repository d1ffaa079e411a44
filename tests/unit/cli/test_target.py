"""Which server a command talks to: flags, environment, context, default."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from penstock.cli.target import Target, TargetArguments, find_target
from penstock.client.http.options import URL, TlsFiles
from penstock.core.errors import InvalidArgument
from penstock.server.context import Context, Contexts, context_file, write_contexts

NEAR = Context(url="http://near:1", username="me", password="hush", local=True)
FAR = Context(url="https://far", token="far-token", ca_file="/ca.pem", namespace="shop")


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    """With contexts near, which is current, and far."""
    found = {"XDG_CONFIG_HOME": str(tmp_path)}
    write_contexts(context_file(found), Contexts(current_context="near", contexts={"near": NEAR, "far": FAR}))
    return found


def login(target: Target) -> tuple[str | None, str | None, str | None]:
    return target.options.token, target.options.api_key, target.options.username


def test_without_anything_it_is_the_default_on_this_machine(tmp_path: Path) -> None:
    found = find_target(TargetArguments(), {"XDG_CONFIG_HOME": str(tmp_path)})
    assert (found.options.url, found.is_local, login(found)) == (URL, True, (None, None, None))


def test_the_current_context_counts_where_nothing_else_is_said(variables: dict[str, str]) -> None:
    found = find_target(TargetArguments(), variables)
    assert (found.options.url, found.is_local) == ("http://near:1", True)
    assert (found.options.username, found.options.password) == ("me", "hush")


def test_the_environment_goes_before_the_file_and_a_flag_before_both(variables: dict[str, str]) -> None:
    variables["PENSTOCK_CONTEXT"] = "far"
    found = find_target(TargetArguments(), variables)
    assert (found.options.url, login(found), found.is_local) == ("https://far", ("far-token", None, None), False)
    assert (found.options.tls, found.options.namespace) == (TlsFiles("/ca.pem"), "shop")
    variables["PENSTOCK_SERVER"] = "http://around:2"
    variables["PENSTOCK_API_KEY"] = "psk_around"
    found = find_target(TargetArguments(), variables)
    assert (found.options.url, login(found), found.is_local) == ("http://around:2", (None, "psk_around", None), False)
    assert find_target(TargetArguments(context="far"), variables).options.url == "https://far"
    found = find_target(TargetArguments(url="http://flag:3", token="t"), variables)
    assert (found.options.url, login(found)) == ("http://flag:3", ("t", None, None))


def test_a_password_goes_to_its_own_server_and_to_no_other(variables: dict[str, str]) -> None:
    assert login(find_target(TargetArguments(url="http://elsewhere:9"), variables)) == (None, None, None)
    assert login(find_target(TargetArguments(url="http://near:1/"), variables)) == (None, None, "me")


def test_a_url_that_was_given_is_not_taken_for_this_machine(variables: dict[str, str]) -> None:
    assert not find_target(TargetArguments(url="http://127.0.0.1:8080"), variables).is_local


def test_a_directory_is_local_and_has_no_login(variables: dict[str, str]) -> None:
    found = find_target(TargetArguments(data=Path("d")), variables)
    assert (found.directory, found.is_local, login(found)) == (Path("d"), True, (None, None, None))
    with pytest.raises(click.UsageError, match="leave --url"):
        find_target(TargetArguments(data=Path("d"), url="http://x"), variables)


def test_a_context_that_is_not_there_is_told_with_those_that_are(variables: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument, match=r"'nowhere'.*near, far"):
        find_target(TargetArguments(context="nowhere"), variables)
