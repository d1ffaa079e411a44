"""Commands against a server that runs, as an operator types them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.support.cli import COMMAND, lines
from tests.support.live_server import LiveServer, live_server
from tests.support.operators import Operator


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with live_server(tmp_path_factory.mktemp("server"), ["listeners.flight.port=0"]) as running:
        yield running


@pytest.fixture
def operator(server: LiveServer, tmp_path: Path) -> Operator:
    """Whose current context is the server, on this machine."""
    url = f"http://127.0.0.1:{server.ports['http']}"
    operator = Operator(tmp_path, url)
    mqtt = f"mqtt://127.0.0.1:{server.ports['mqtt']}"
    assert "current" in operator.says("context", "set", "it", "--url", url, "--mqtt", mqtt, "--local")
    return operator


def test_a_queue_is_declared_filled_looked_at_and_consumed(operator: Operator) -> None:
    operator.says("queue", "create", "orders", "--partitions", "2")
    assert "1 message put" in operator.says("produce", "orders", "a lamp", "--key", "bob", "--header", "a=b")
    assert "3 messages put" in operator.says("produce", "orders", "--stdin", "--key-separator", ":", given=b"k:x\n" * 3)
    [first] = [
        json.loads(line) for line in operator.says("consume", "orders", "--grep", "l.mp", "-o", "json").split("\n")[:-1]
    ]
    assert (first["value"], first["key"], first["headers"]) == ("a lamp", "bob", [["a", "b"]])
    assert len(operator.says("consume", "orders").splitlines()) == 4
    assert len(operator.says("consume", "orders", "--max", "2").splitlines()) == 2
    assert operator.says("consume", "orders", "--group", "other", "--max", "3", "--no-ack").count("\n") == 3
    assert operator.shows("group", "describe", "orders", "other")["lag"] == 4
    assert operator.says("consume", "orders", "--group", "g", "--max", "3").count("\n") == 3
    assert operator.says("consume", "orders", "--group", "g").count("\n") == 1
    [listed] = [queue for queue in operator.shows("queue", "list")["queues"] if queue["name"] == "orders"]
    assert (listed["messages"], listed["groups"]) == (4, 2)
    assert operator.shows("group", "describe", "orders", "g")["lag"] == 0


def test_what_is_given_back_comes_again_and_counts_as_no_failure(operator: Operator) -> None:
    operator.says("queue", "create", "shy", "--partitions", "1", "--set", "retry_policy.max_retries=0")
    operator.says("produce", "shy", "--stdin", given=lines(3))
    for _ in range(3):
        assert operator.says("consume", "shy", "--group", "g", "--no-ack") == lines(3).decode()
    stats = operator.shows("group", "describe", "shy", "g")
    assert (stats["lag"], stats["in_flight"], stats["waiting"]) == (3, 0, 0)
    assert operator.shows("dlq", "list", "shy")["letters"] == []
    assert operator.says("consume", "shy", "--group", "g").count("\n") == 3


def test_follow_shows_what_comes_and_an_interrupt_ends_it(operator: Operator) -> None:
    operator.says("queue", "create", "news", "--partitions", "1")
    command = [*COMMAND, "consume", "news", "--follow", "--from-beginning", "--max", "3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=operator.environment) as following:
        operator.says("produce", "news", "--stdin", given=lines(3))
        out, _ = following.communicate(timeout=60)
    assert out == lines(3)
    assert following.returncode == 0


def test_bytes_come_back_as_they_went(operator: Operator, tmp_path: Path) -> None:
    file = tmp_path / "bytes"
    file.write_bytes(bytes(range(256)))
    operator.says("queue", "create", "binary", "--partitions", "1")
    operator.says("produce", "binary", "--file", str(file))
    assert operator.run("consume", "binary").stdout == bytes(range(256)) + b"\n"


def test_what_destroys_asks_unless_the_context_is_local(operator: Operator) -> None:
    operator.says("queue", "create", "doomed")
    assert "run it with --yes" in operator.fails("queue", "delete", "doomed", "--url", operator.url)
    assert "run it with --yes" in operator.fails("queue", "purge", "doomed", variables={"PENSTOCK_URL": operator.url})
    operator.says("queue", "purge", "doomed", "--url", operator.url, "--yes")
    operator.says("queue", "delete", "doomed")


def test_exit_codes_tell_what_went_wrong(operator: Operator) -> None:
    assert "no queue 'nowhere'" in operator.fails("queue", "describe", "nowhere", expected=3)
    assert "no context 'x'" in operator.fails("queue", "list", "--context", "x", expected=2)
    assert "penstock serve" in operator.fails("queue", "list", "--url", "http://127.0.0.1:9", expected=4)
    operator.says("queue", "create", "twice")
    assert "exists already" in operator.fails("queue", "create", "twice", expected=1)


def test_clients_are_listed_shown_and_disconnected(operator: Operator) -> None:
    command = [*COMMAND, "subscribe", "some/topic", "-i", "pump-7"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=operator.environment) as subscriber:
        while "pump-7" not in operator.says("client", "list", "--connected"):
            assert subscriber.poll() is None
        assert operator.shows("client", "show", "pump-7")["protocol"] == "mqtt-5"
        assert "would be" in operator.says("client", "disconnect", "pump-7", "--dry-run")
        operator.says("client", "disconnect", "pump-7")
        subscriber.terminate()
        subscriber.communicate(timeout=60)
    operator.fails("client", "show", "nobody", expected=3)


def test_the_configuration_is_shown_compared_and_read_again(operator: Operator) -> None:
    assert operator.shows("config", "view")["auth.development_mode"] is True
    assert "nothing would change" in operator.says("config", "diff")
    assert "nothing changed" in operator.says("config", "reload")
    assert operator.says("config", "log-level", "debug") == "debug\n"
    assert operator.says("config", "log-level", "info") == "info\n"


def test_contexts_are_made_used_shown_and_forgotten(operator: Operator, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("psk_id_hush\n")
    operator.says("config", "set-context", "far", "--server", "https://far.example", "--api-key-file", str(key))
    assert operator.says("config", "current-context") == "it\n"
    operator.says("config", "use-context", "far")
    listed = operator.says("context", "list") + operator.says("context", "show", "far")
    assert "https://far.example" in listed
    assert "hush" not in listed
    assert operator.shows("context", "list")["current_context"] == "far"
    assert "none is current" in operator.says("context", "delete", "far")
    operator.fails("context", "use", "far", expected=3)


def test_yaml_says_the_same_as_json(operator: Operator) -> None:
    operator.says("queue", "create", "formats", "--partitions", "1")
    described = yaml.safe_load(operator.says("queue", "describe", "formats", "-o", "yaml"))
    assert described["settings"] == operator.shows("queue", "describe", "formats")["settings"]
    operator.says("produce", "formats", "x")
    [message] = yaml.safe_load_all(operator.says("consume", "formats", "-o", "yaml"))
    assert message["value"] == "x"


def test_top_shows_a_frame_with_every_queue(operator: Operator) -> None:
    operator.says("queue", "create", "watched", "--if-absent")
    frame = operator.says("top", "--once", "--interval", "0.1")
    assert "watched" in frame
    assert "in flight" in frame
    assert "ready" in frame


def test_bench_measures_every_load_saves_and_compares(operator: Operator, server: LiveServer, tmp_path: Path) -> None:
    saved = tmp_path / "before.json"
    small = "--messages", "300", "--connections", "2", "--batch", "20"
    flight = "--flight", f"grpc://127.0.0.1:{server.ports['flight']}"
    reading = "http-receive", "http-events", "mqtt-consume", "flight-read"
    loads = *reading, "http-publish", "mqtt-publish", "flight-publish"
    operator.says("bench", *loads, *small, *flight, "--save", str(saved))
    results = json.loads(saved.read_text())["results"]
    assert [(result["kind"], result["messages"]) for result in results] == [(load, 300) for load in loads]
    assert all(0 < result["latency_ms"]["p50"] <= result["latency_ms"]["max"] for result in results)
    assert "ratio" in operator.says("bench", "http-publish", *small, "--compare", str(saved))
    assert not [queue for queue in operator.shows("queue", "list")["queues"] if queue["name"].startswith("bench-")]
    operator.fails("bench", "--compare", str(tmp_path / "nothing"))


def test_bench_says_what_it_needs_and_leaves_no_queue(operator: Operator) -> None:
    assert "--flight grpc://host:port" in operator.fails("bench", "flight-read", "--messages", "10", expected=2)
    nobody = "--flight", "grpc://127.0.0.1:1"
    assert "127.0.0.1:1" in operator.fails("bench", "flight-publish", "--messages", "10", *nobody, expected=4)
    assert not [queue for queue in operator.shows("queue", "list")["queues"] if queue["name"].startswith("bench-")]


def test_bench_opens_as_many_connections_as_it_says(operator: Operator) -> None:
    [result] = operator.shows("bench", "http-events", "--messages", "4000", "--connections", "40")["results"]
    assert (result["messages"] >= 4000, result["connections"]) == (True, 40)


def test_a_server_copies_its_own_data(operator: Operator, tmp_path: Path) -> None:
    report = operator.shows("backup", str(tmp_path / "copy"))
    assert report["files"] > 0
    assert (tmp_path / "copy").is_dir()
    assert "absolute path" in operator.fails("backup", "relative")
    operator.fails("backup", "a", "b", "c", expected=2)


def test_shells_complete_names_of_queues_groups_and_contexts(operator: Operator) -> None:
    operator.says("queue", "create", "complete-me", "--if-absent")
    operator.says("group", "create", "complete-me", "workers")

    def completed(*words: str) -> str:
        asked = {
            "_PENSTOCK_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(words),
            "COMP_CWORD": str(len(words) - 1),
        }
        return operator.says(variables=asked)

    assert completed("penstock", "queue", "describe", "complete") == "plain,complete-me\n"
    assert completed("penstock", "group", "pause", "complete-me", "w") == "plain,workers\n"
    assert completed("penstock", "queue", "list", "--context", "i") == "plain,it\n"
    assert completed("penstock", "context", "use", "i") == "plain,it\n"
    assert "complete-me" not in completed("penstock", "queue", "describe", "--url", "http://127.0.0.1:9", "complete")


def test_shells_complete_commands(operator: Operator) -> None:
    for shell in ("zsh", "fish"):
        assert "_PENSTOCK_COMPLETE" in operator.says("completion", shell)
    asked = {"_PENSTOCK_COMPLETE": "bash_complete", "COMP_WORDS": "penstock queue cr", "COMP_CWORD": "2"}
    assert "create" in operator.says(variables=asked)
