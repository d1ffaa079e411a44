"""`penstock queue`, `group` and `dlq` as a user types them."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import lines, penstock, penstock_json

from penstock.broker.broker import Broker
from penstock.broker.feed.held import Held


def said(*arguments: str | Path, given: bytes = b"", expected: int = 0) -> str:
    ran = penstock(*arguments, given=given, expected=expected)
    return (ran.stdout if expected == 0 else ran.stderr).decode()


def shown(*arguments: str | Path) -> Any:
    """JSON can be anything; what it must be, the test says."""
    return penstock_json(*arguments)


def json_lines(*arguments: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in penstock(*arguments, "-o", "json").stdout.splitlines()]


async def reject_all(directory: Path, queue: str, group: str) -> None:
    async with await Broker.open(directory) as broker:
        consumer = broker.join(await broker.group(broker.queue(queue), group))
        for delivery in await consumer.receive(1000):
            await broker.settling.reject(Held(delivery), "no such account")


async def received(directory: Path, queue: str, group: str) -> list[bytes]:
    async with await Broker.open(directory) as broker:
        consumer = broker.join(await broker.group(broker.queue(queue), group))
        return [delivery.stored.batch.value(row) for delivery in await consumer.receive(1000) for row in delivery.rows]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """With a queue `orders` of two partitions and four messages."""
    directory = tmp_path / "data"
    penstock("queue", "create", "--data", directory, "orders", "--partitions", "2")
    penstock("queue", "put", "--data", directory, "orders", "--partition", "1", given=lines(4))
    return directory


@pytest.mark.parametrize("command", [("queue", "create", "a"), ("queue", "template", "add", "a-*")])
def test_what_is_refused_makes_no_directory(tmp_path: Path, command: tuple[str, ...]) -> None:
    told = said(*command, "--set", "limits.max_queue_dpth=1", "--data", tmp_path / "new", expected=1)
    assert "did you mean limits.max_queue_depth" in told
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "command",
    [
        ("user", "add", "anonymous", "--no-password"),
        ("acl", "add", "allow", "publish", "a/#/b"),
        ("key", "create", "--role", "a b\n"),
    ],
    ids=lambda command: command[0],
)
def test_users_rules_and_keys_that_are_refused_make_no_directory_and_leave_an_empty_one_empty(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("new", "empty"):
        assert said(*command, "--data", tmp_path / name, expected=1)
    assert [each.name for each in tmp_path.rglob("*")] == ["empty"]


def test_a_queue_is_declared_from_options_and_from_a_file(tmp_path: Path) -> None:
    settings = tmp_path / "orders.json"
    settings.write_text('{"name": "orders", "partitions": 3, "retry_policy": {"max_retries": 3}}')
    made = shown(
        "queue", "create", "--data", tmp_path / "data", "--file", settings, "--set", "retry_policy.initial_backoff=2s"
    )
    assert made["name"] == "orders"
    found = made["settings"]
    assert found["partitions"] == 3
    assert found["retry_policy"]["max_retries"] == 3
    assert found["retry_policy"]["initial_backoff"] == "2s"
    assert "exists already" in said("queue", "create", "--data", tmp_path / "data", "orders", expected=1)
    penstock("queue", "create", "--data", tmp_path / "data", "orders", "--if-absent")


def test_an_unknown_setting_names_the_nearest_and_wrong_usage_ends_with_2(tmp_path: Path) -> None:
    text = said("queue", "create", "--data", tmp_path / "data", "q", "--set", "limits.max_queue_dept=1", expected=1)
    assert "did you mean limits.max_queue_depth?" in text
    said("queue", "create", "--data", tmp_path / "data", "q", "--set", "partitions", expected=2)
    said("queue", "create", "--data", tmp_path / "data", expected=2)
    said("group", "reset-offsets", "--data", tmp_path, "q", "g", "--to-latest", "--to-earliest", expected=2)


def test_settings_change_and_what_cannot_is_refused(data: Path) -> None:
    changed = shown("queue", "update", "--data", data, "orders", "--set", "limits.max_queue_depth=7")
    assert changed["settings"]["limits"]["max_queue_depth"] == 7
    assert "limits.max_queue_depth" in said("queue", "describe", "--data", data, "orders")
    assert "cannot go down" in said("queue", "update", "--data", data, "orders", "--set", "partitions=1", expected=1)
    said("queue", "update", "--data", data, "orders", expected=2)


def test_messages_that_were_put_are_browsed_with_key_headers_and_id(data: Path) -> None:
    options = "--key-separator", ":", "--header", "a=b", "-o", "json"
    placed = json.loads(said("queue", "put", "--data", data, "orders", *options, given=b"k:v"))["placed"]
    assert [each["messages"] for each in placed] == [1]
    assert said("queue", "browse", "--data", data, "orders", "--partition", "1", "-n", "2") == "message 0\nmessage 1\n"
    last = json_lines("queue", "browse", "--data", data, "orders")[-1]
    assert (last["key"], last["value"], last["headers"]) == ("k", "v", [["a", "b"]])
    assert json_lines("queue", "browse", "--data", data, "orders", "--id", last["id"]) == [last]
    assert "is not there" in said("queue", "browse", "--data", data, "orders", "--id", "orders@1:1:99", expected=1)


def test_a_full_queue_says_so_and_what_was_put_before_is_told(data: Path) -> None:
    penstock("group", "create", "--data", data, "orders", "billing", "--start", "latest")
    penstock("queue", "update", "--data", data, "orders", "--set", "limits.max_queue_depth=2")
    assert "is full" in said("queue", "put", "--data", data, "orders", given=lines(3), expected=1)
    assert "2 messages put" in said("queue", "put", "--data", data, "orders", given=lines(2))


def test_queues_are_listed_paused_purged_and_deleted(data: Path) -> None:
    penstock("queue", "pause", "--data", data, "orders")
    [listed] = shown("queue", "list", "--data", data)["queues"]
    assert (listed["name"], listed["messages"], listed["is_paused"]) == ("orders", 4, True)
    assert "paused" in said("queue", "list", "--data", data)
    penstock("queue", "resume", "--data", data, "orders")
    assert "4 messages would be purged" in said("queue", "purge", "--data", data, "orders", "--dry-run")
    assert "4 messages purged" in said("queue", "purge", "--data", data, "orders")
    assert "would be deleted" in said("queue", "delete", "--data", data, "orders", "--dry-run")
    penstock("queue", "delete", "--data", data, "orders")
    assert "no queues yet" in said("queue", "list", "--data", data)
    assert "no queue 'orders'" in said("queue", "describe", "--data", data, "orders", expected=3)


def test_templates_count_for_queues_declared_after_them(tmp_path: Path) -> None:
    data = tmp_path / "data"
    penstock("queue", "template", "add", "--data", data, "mail-*", "--set", "partitions=2")
    assert shown("queue", "template", "list", "--data", data) == {
        "templates": [{"match": "mail-*", "settings": {"partitions": 2}}]
    }
    made = shown("queue", "create", "--data", data, "mail-in")
    assert made["settings"]["partitions"] == 2
    penstock("queue", "template", "drop", "--data", data, "mail-*")
    assert "no template" in said("queue", "template", "drop", "--data", data, "mail-*", expected=3)


def test_a_group_is_created_moved_paused_and_deleted(data: Path) -> None:
    made = shown("group", "create", "--data", data, "orders", "billing")
    assert (made["lag"], made["depth"]) == (4, 0)
    assert "already" in said("group", "create", "--data", data, "orders", "billing", expected=1)
    assert "3 messages settled" in said("group", "commit", "--data", data, "orders", "billing", "1", "3")
    found = shown("group", "describe", "--data", data, "orders", "billing")
    assert [(each["partition"], each["floor"], each["end"]) for each in found["partitions"]][-1] == (1, 3, 4)
    assert shown("group", "reset", "--data", data, "orders", "billing", "--to", "earliest")["lag"] == 4
    assert shown("group", "reset", "--data", data, "orders", "billing", "--to", "2", "--partition", "1")["lag"] == 2
    assert "has partitions 0 to 1" in said(
        "group", "reset", "--data", data, "orders", "billing", "--to", "latest", "--partition", "2", expected=1
    )
    place = "group", "reset-offsets", "--data", data, "orders", "billing"
    assert shown(*place, "--to-time", "1h", "--dry-run")["partitions"][-1] == {"partition": 1, "before": 2, "after": 0}
    assert "would be reset to latest" in said(*place, "--to-latest", "--dry-run")
    assert shown(*place, "--to-offset", "1", "--partition", "1")["lag"] == 3
    penstock("group", "pause", "--data", data, "orders", "billing")
    assert "paused" in said("group", "list", "--data", data)
    penstock("group", "resume", "--data", data, "orders", "billing")
    penstock("group", "delete", "--data", data, "orders", "billing", "--yes")
    assert shown("group", "list", "--data", data, "orders") == {"groups": []}
    assert "no consumer group" in said("group", "describe", "--data", data, "orders", "billing", expected=3)


def test_dead_letters_are_listed_shown_redriven_and_dropped(data: Path) -> None:
    assert "no dead letters" in said("dlq", "list", "--data", data, "orders")
    asyncio.run(reject_all(data, "orders", "billing"))
    assert shown("dlq", "list", "--data", data) == {"queues": [{"name": "$dlq/orders", "letters": 4}]}
    listed = shown("dlq", "list", "--data", data, "orders", "--reason", "rejected")["letters"]
    facts = listed[0]["dead_letter"]
    assert (facts["group"], facts["detail"], facts["message_id"]) == ("billing", "no such account", "orders@1:1:0")
    assert "no such account" in said("dlq", "list", "--data", data, "orders")
    assert "no such account" in said("dlq", "show", "--data", data, "orders@1:1:2")
    redriven = shown("dlq", "redrive", "--data", data, "orders", "--id", listed[1]["id"])
    assert redriven == {"redriven": 1, "left": [], "missing": []}
    said("dlq", "drop", "--data", data, "orders", expected=2)
    assert "3 letters would be dropped" in said("dlq", "drop", "--data", data, "orders", "--all", "--dry-run")
    assert shown("dlq", "redrive", "--data", data, "orders", "-n", "2", "--dry-run")["redriven"] == 2
    assert "no dead letter" in said("dlq", "show", "--data", data, "orders@1:1:77", expected=3)
    assert "1 letter dropped" in said("dlq", "drop", "--data", data, "orders", "--id", "orders@1:1:3", "--yes")
    assert "2 letters redriven" in said(
        "dlq", "redrive", "--data", data, "$dlq/orders", "--group", "billing", "--rate", "1000"
    )
    assert "0 letters redriven" in said("dlq", "redrive", "--data", data, "orders")
    assert sorted(asyncio.run(received(data, "orders", "billing"))) == [b"message 0", b"message 1", b"message 2"]
    assert "no dead letter" in said("dlq", "redrive", "--data", data, "orders", "--id", "orders@1:1:3", expected=1)


def test_letters_that_cannot_go_back_stay_and_the_exit_code_says_so(data: Path) -> None:
    asyncio.run(reject_all(data, "orders", "billing"))
    penstock("group", "delete", "--data", data, "orders", "billing", "--yes")
    assert "4 letters left: queue 'orders' has no group 'billing'" in said(
        "dlq", "redrive", "--data", data, "orders", expected=1
    )
    penstock("queue", "create", "--data", data, "repair")
    assert "4 letters redriven" in said("dlq", "redrive", "--data", data, "orders", "--to", "repair")


def test_a_directory_in_use_names_the_process_and_what_to_do(data: Path) -> None:
    async def main() -> str:
        async with await Broker.open(data):
            return await asyncio.to_thread(said, "queue", "list", "--data", data, expected=1)

    text = asyncio.run(main())
    assert f"process {os.getpid()}" in text
    assert "penstock.open" in text


def test_a_directory_that_is_none_of_ours_is_refused_and_left_alone(tmp_path: Path) -> None:
    assert "not a data directory" in said("queue", "list", "--data", tmp_path, expected=1)
    assert list(tmp_path.iterdir()) == []
