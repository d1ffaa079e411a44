"""Every command, typed at a server with logins and TLS: it answers in JSON and YAML as well, and a dry run of one that
destroys something changes nothing."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from tests.support.cli import COMMAND, ENVIRONMENT
from tests.support.commands import Ran, leaves, options_of, run_here
from tests.support.secure_server import SecureServer

SHOWN_TO_PEOPLE = {
    ("completion",): "prints a program for a shell",
    ("pipeline", "run"): "goes on until it is stopped; its progress is shown on a terminal, or as log lines",
}
"""commands without -o, and why"""

DESTRUCTIVE = {
    "commit", "delete", "delete-context", "disconnect", "drop", "purge", "redrive", "remove", "repair", "reset",
    "reset-offsets", "revoke", "rm",
}  # fmt: skip
"""last words of commands that take something away from somebody"""

SCRIPT = """
serve --check --dev
version
context set it --url {url} --mqtt {mqtt} --ca-file {ca} --token {token}
context set other --url https://other.example
context list
context show it
context use it
context delete other
config set-context other --url https://other.example
config get-contexts
config current-context
config use-context it
config delete-context other
config view
config diff
config reload
config log-level info
queue create orders --partitions 1
queue update orders --set limits.max_queue_depth=1000
queue template add mail-* --set partitions=2
queue template list
queue template drop mail-*
exchange declare logs --type topic
exchange list
binding add logs orders --key eu.#
binding list --source logs
policy put short ^ord --set message-ttl=60000
policy list
policy remove short
import rabbitmq {definitions}
exchange show logs
exchange publish logs 'a lamp' --key us.1
binding remove logs orders --key eu.#
exchange delete logs
queue delete moved
queue put orders
produce orders 'a lamp'
publish sensors/1 21.5 --retain
subscribe sensors/1 --count 1
queue list
queue describe orders
queue browse orders
queue pause orders
queue resume orders
group create orders shipping
group list
group describe orders shipping
consume orders --group shipping --max 1
group commit orders shipping 0 2
group reset orders shipping --to earliest
group reset-offsets orders shipping --to-latest
group pause orders shipping
group resume orders shipping
group delete orders shipping
queue create $dlq/orders --partitions 1
queue put $dlq/orders
dlq list orders
dlq show {letter}
dlq redrive orders -n 1
dlq drop orders --all
client list
client show pump-7
client disconnect pump-7
user add alice --role staff --generate
user list
user roles alice staff billing
user passwd alice --generate
acl add allow consume orders --user alice
acl list
acl roles
acl check alice consume orders
acl rm allow consume orders --user alice
user rm alice
user hash
key create --role producer
key list
key revoke {key}
top --once --interval 0.1
bench http-publish --messages 20 --connections 1
queue purge orders
queue delete orders
queue delete $dlq/orders
log append {place}/log --log numbers
log stat {place}/log
log cat {place}/log --log numbers
log dump {place}/log --log numbers
log verify {place}/log
log repair {place}/log --log numbers --method skip
backup {place}/log {place}/copy
restore {place}/copy {place}/again
doctor {place}/log
queue create things --partitions 1 --data {place}/data
queue create again --partitions 1 --data {place}/data
queue put things --data {place}/data
sql 'select count(*) as rows from things' --data {place}/data
pipeline audit --data {place}/data
pipeline archive things --data {place}/data --to {place}/archive
pipeline snapshot things --data {place}/data --to {place}/snapshot
pipeline replay --from things --to again --data {place}/data
pipeline report --data {place}/data --to {place}/report.html
pipeline check {pipeline} --no-spark
pipeline plan {pipeline}
"""
_MAY_FAIL = {("doctor",)}
"""ends with 1 on a machine where Penstock cannot run well"""


@dataclass
class Script:
    """Runs a command a line, in one format, and takes what later lines need out of what earlier ones said."""

    place: Path
    output: str
    known: dict[str, str]
    was_run: list[tuple[str, ...]] = field(default_factory=list)

    def run(self, line: str) -> None:
        words = shlex.split(line.format(**self.known))
        path, command = next((path, found) for path, found in leaves().items() if tuple(words[: len(path)]) == path)
        if "--dry-run" in options_of(command):
            before = self.state()
            self._said(path, [*words, "--dry-run"])
            assert self.state() == before, line
        self._learn(path, self._said(path, [*words, *(["--yes"] if "--yes" in options_of(command) else [])]))
        self.was_run.append(path)

    def type(self, *words: str) -> Ran:
        given = self.place / "lines"
        given.write_text("one\ntwo\nthree\n")
        return run_here(*words, given=given, variables={"XDG_CONFIG_HOME": str(self.place / "config")})

    def _said(self, path: tuple[str, ...], words: list[str]) -> list[Any]:
        ran = self.type(*words, "-o", self.output)
        assert ran.code == 0 or path in _MAY_FAIL, (words, ran)
        said = _parsed(ran.out.decode(), self.output)
        assert said and all(isinstance(each, dict) for each in said), (words, ran)
        return said

    def _learn(self, path: tuple[str, ...], said: list[Any]) -> None:
        if path == ("dlq", "list"):
            self.known["letter"] = shlex.quote(said[0]["letters"][0]["id"])
        elif path == ("key", "create"):
            self.known["key"] = said[0]["id"]

    def state(self) -> object:
        """What commands could destroy, as far as it stands still by itself."""
        shown = {
            ("queue", "list"): ("name", "messages", "depth", "is_paused"),
            ("group", "list"): ("queue", "name", "is_paused", "lag", "partitions"),
            ("queue", "template", "list"): ("match", "settings"),
            ("dlq", "list"): ("name", "letters"),
            ("client", "list"): ("client_id", "is_connected"),
            ("user", "list"): ("name", "roles", "changed_ms"),
            ("key", "list"): ("id", "roles"),
            ("acl", "list"): ("effect", "action", "pattern", "user", "role"),
        }
        told = [self._fields(words, names) for words, names in shown.items()]
        files = [self.place / "config" / "penstock" / "config.yaml", *sorted(self.place.glob("log/**/*"))]
        return told, {file: file.read_bytes() for file in files if file.is_file()}

    def _fields(self, words: tuple[str, ...], names: tuple[str, ...]) -> list[dict[str, object]]:
        [rows] = json.loads(self.type(*words, "--context", "it", "-o", "json").out).values()
        return [{name: row.get(name) for name in names} for row in rows]


def known_of(secured: SecureServer, place: Path) -> dict[str, str]:
    """What the lines of the catalogue have places for."""
    definitions = place / "defs.json"
    definitions.write_text('{"queues": [{"name": "moved", "vhost": "/", "durable": true, "arguments": {}}]}')
    return {
        "definitions": str(definitions),
        "pipeline": str(Path(__file__).parents[2] / "examples" / "pipeline" / "devices.yaml"),
        "url": secured.url,
        "mqtt": secured.mqtt,
        "ca": str(secured.ca_file),
        "place": str(place),
        "token": secured.token("admin"),
    }


def _parsed(text: str, output: str) -> list[Any]:
    """One value, or many that came one after the other."""
    if output == "yaml":
        return list(yaml.safe_load_all(text))
    try:
        return [json.loads(text)]
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines()]


@contextmanager
def connected_client(secured: SecureServer, place: Path) -> Iterator[None]:
    """One that `client` commands can be about, until they end it or the test does."""
    password = place / "password"
    password.write_text(secured.token("admin"))
    address = ["-H", "127.0.0.1", "-p", str(secured.server.ports["mqtts"]), "--ca-file", str(secured.ca_file)]
    command = [*COMMAND, "subscribe", "some/topic", "-i", "pump-7", *address]
    command += ["-u", "admin", "--password-file", str(password)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT) as process:
        try:
            asked = ["--url", secured.url, "--token", secured.token("admin"), "--ca-file", str(secured.ca_file)]
            while b"pump-7" not in run_here("client", "list", "--connected", *asked, variables={}).out:
                assert process.poll() is None
            yield
        finally:
            process.terminate()


def test_every_command_says_what_it_did_in_every_format() -> None:
    without = {words for words, command in leaves().items() if "-o" not in options_of(command)}
    assert without == set(SHOWN_TO_PEOPLE)
    for command in leaves().values():
        if (option := options_of(command).get("-o")) is not None:
            context = click.Context(command)
            default = option.get_default(context)
            assert [option.type.convert(name, option, context) for name in ("table", "text")] == [default] * 2
            assert {"json", "yaml"} <= {option.type.convert(name, option, context) for name in ("json", "yaml")}


def test_every_command_that_destroys_can_be_tried_first() -> None:
    missing = [
        words
        for words, command in leaves().items()
        if words[-1] in DESTRUCTIVE and "--dry-run" not in options_of(command)
    ]
    assert not missing


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_what_a_command_says_can_be_read_by_programs_and_a_dry_run_changes_nothing(
    secured: SecureServer, tmp_path: Path, output: str
) -> None:
    script = Script(tmp_path, output, known_of(secured, tmp_path))
    with connected_client(secured, tmp_path):
        for line in SCRIPT.strip().splitlines():
            script.run(line)
    assert set(script.was_run) == set(leaves()) - set(SHOWN_TO_PEOPLE)
