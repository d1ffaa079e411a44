"""What a running server tells the world when its disk fails or fills up, for real: publishers, probes, metrics,
webhooks."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.faults import Image, mounted, shim_environment, wait_until
from tests.support.http_client import Answer, HttpClient
from tests.support.live_server import NOTHING, LiveServer, live_server
from tests.support.receiver import Receiver, receiving

pytestmark = pytest.mark.faults

_MIB = 1 << 20
_MOST = 5000
DISK_BYTES, RESERVE_BYTES = 64 * _MIB, 16 * _MIB
SMALL = ("storage.journal_file_size=1MiB", "storage.journal_size=4MiB", "storage.checkpoint_size=1MiB")


@contextmanager
def watched(
    place: Path, *settings: str, data: Path | None = None, variables: Mapping[str, str] = NOTHING
) -> Iterator[tuple[LiveServer, HttpClient, Receiver]]:
    with receiving() as receiver:
        hooks = json.dumps([{"url": receiver.url, "events": ["log-poisoned", "disk-low"]}])
        everything = [*SMALL, f"webhooks={hooks}", *settings]
        with live_server(place / "server", everything, data=data, variables=variables) as server:
            http = HttpClient(("127.0.0.1", server.ports["http"]))
            yield server, http, receiver
            http.close()


def refused(http: HttpClient, queue: str, size_bytes: int = 100) -> Answer:
    """The first publish that is not taken."""
    for _ in range(_MOST):
        answer = http.post(f"queues/{queue}/messages", {"text": "x" * size_bytes})
        if answer.status != 200:
            return answer
    raise AssertionError(f"{_MOST} publishes were taken")


def told(receiver: Receiver) -> dict[str, Any]:
    """The first event, which is all there is."""
    wait_until(lambda: bool(receiver.requests), "an event is told")
    [request] = receiver.requests
    return request.facts


def metric(http: HttpClient, name: str) -> float:
    page = http.get("/metrics").body.decode()
    [line] = [line for line in page.splitlines() if line.startswith(f"{name} ")]
    return float(line.split()[1])


@pytest.mark.usefixtures("shim")
def test_a_journal_that_cannot_be_synced_is_said_by_all_that_can_say_it(tmp_path: Path) -> None:
    variables = shim_environment(tmp_path / "trace", watch="/nowhere/", fail="/journal/ 40 0")
    with watched(tmp_path, "storage.disk_reserve=0", variables=variables) as (server, http, receiver):
        assert http.get("/ready").status == 200
        answer = refused(http, "q")
        assert (answer.status, answer.code) == (503, "outcome-unknown")
        facts = told(receiver)
        assert (facts["event"], facts["log"]) == ("log-poisoned", None)
        assert os.strerror(5) in str(facts["reason"])
        ready = http.get("/ready")
        assert (ready.status, ready.json["status"]) == (503, "not ready")
        assert os.strerror(5) in ready.json["problems"][0]
        assert http.get("overview").json["is_ready"] is False
        health = http.get("/health")
        assert (health.status, os.strerror(5) in health.json["reason"]) == (503, True)
        assert metric(http, "penstock_storage_journal_failed") == 1
        assert metric(http, "penstock_storage_logs_poisoned_total") >= 1
        again = http.post("queues/q/messages", {"text": "x"})
        assert (again.status, again.code) == (503, "journal-failed")
        assert server.is_up


@pytest.mark.usefixtures("shim")
def test_a_log_whose_files_fail_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    variables = shim_environment(tmp_path / "trace", watch="/nowhere/", fail="/default/bad/0@ 1 0", loses=True)
    with watched(tmp_path, "storage.disk_reserve=0", variables=variables) as (server, http, receiver):
        for name in ("bad", "good"):
            assert http.post("queues", {"name": name, "partitions": 1}).status == 201
        answer = refused(http, "bad", 10_000)
        assert (answer.status, answer.code) == (503, "log-poisoned")
        facts = told(receiver)
        assert facts["event"] == "log-poisoned" and "bad" in str(facts["log"])
        assert http.post("queues/good/messages", {"text": "x"}).status == 200
        assert http.get("/ready").status == 200, "every other queue commits"
        assert any("bad" in warning for warning in http.get("overview").json["warnings"])
        assert metric(http, "penstock_storage_logs_faulty") == 1
        assert server.is_up


@pytest.mark.usefixtures("mounts")
def test_a_disk_that_fills_up_is_said_before_it_is_full_and_room_ends_it(tmp_path: Path) -> None:
    image = Image.make(tmp_path / "image", DISK_BYTES)
    with (
        mounted(image, tmp_path / "mount") as mount,
        watched(tmp_path, f"storage.disk_reserve={RESERVE_BYTES}", data=mount / "data") as (server, http, receiver),
    ):
        assert http.post("queues/q/messages", {"text": "x"}).status == 200
        [message] = http.receive("q")
        with (mount / "junk").open("wb") as junk:
            os.posix_fallocate(junk.fileno(), 0, free_bytes(mount) - RESERVE_BYTES // 2)
        answer = refused(http, "q")
        assert (answer.status, answer.code) == (507, "disk-low")
        facts = told(receiver)
        assert facts["event"] == "disk-low"
        assert int(facts["free_bytes"]) < int(facts["reserve_bytes"]) == RESERVE_BYTES
        assert http.get("/ready").status == 200, "what was taken can be settled"
        assert any("disk_reserve" in warning for warning in http.get("overview").json["warnings"])
        assert http.post("messages/ack", {"receipts": [message["receipt"]]}).status == 200
        assert metric(http, "penstock_storage_publishes_refused_total") >= 1
        (mount / "junk").unlink()
        wait_until(lambda: http.post("queues/q/messages", {"text": "x"}).status == 200, "there is room again")
        assert server.is_up


def free_bytes(mount: Path) -> int:
    figures = os.statvfs(mount)
    return figures.f_bavail * figures.f_frsize
