"""`penstock key` as an operator types it, and a key as a program uses it over MQTT."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from tests.support.cli import penstock, penstock_json
from tests.support.mqtt_gateway import Setup, running

from penstock.broker.auth.access import Access
from penstock.broker.auth.identity import Identity
from penstock.broker.auth.options import AuthOptions
from penstock.broker.broker import Broker
from penstock.codecs.mqtt.packets import PubAck, Publish
from penstock.codecs.mqtt.reasons import ReasonCode


def said(*arguments: str | Path) -> str:
    return penstock(*arguments).stdout.decode()


def shown(*arguments: str | Path) -> Any:
    """JSON can be anything; what it must be, the test says."""
    return penstock_json(*arguments)


async def logged_in(directory: Path, text: str) -> Identity:
    async with await Broker.open(directory) as broker:
        access = await Access.open(broker.shard)
        try:
            return access.login_key(text, "192.0.2.1")
        finally:
            access.close()


def test_a_key_that_was_made_logs_in_and_is_listed_without_its_secret(tmp_path: Path) -> None:
    data = tmp_path / "data"
    printed = said(
        "key", "create", "--data", data, "--role", "producer", "--description", "web shop", "--expires", "90d"
    )
    found = re.search(r"secret: (psk_([0-9a-f]{12})_[0-9a-f]{64})", printed)
    assert found is not None
    identity = asyncio.run(logged_in(data, found[1]))
    assert (identity.name, identity.how) == (f"key:{found[2]}", "api-key")
    [key] = shown("key", "list", "--data", data)["keys"]
    assert (key["id"], key["user"], key["roles"], key["description"]) == (
        found[2],
        identity.name,
        ["producer"],
        "web shop",
    )
    assert key["expires_ms"] - key["created_ms"] <= 90 * 86_400_000
    assert key.keys() == {"id", "user", "roles", "namespace", "description", "created_ms", "expires_ms"}
    assert "web shop" in said("key", "list", "--data", data)
    assert found[1][20:] not in said("key", "list", "--data", data, "-o", "json") + said("key", "list", "--data", data)


def test_a_key_is_revoked_once_with_its_rules(tmp_path: Path) -> None:
    data = tmp_path / "data"
    made = shown("key", "create", "--data", data, "--role", "read-only")
    assert made["secret"].startswith(f"psk_{made['id']}_")
    said("acl", "add", "--data", data, "allow", "consume", "orders", "--user", made["user"])
    assert said("acl", "check", "--data", data, "--user", made["user"], "browse", "other").startswith(
        "allowed: the role read-only"
    )
    assert b"would be revoked" in penstock("key", "revoke", "--data", data, made["id"], "--dry-run").stdout
    assert shown("key", "revoke", "--data", data, made["user"], "--yes") == {
        "id": made["id"],
        "rules": 1,
        "dry_run": False,
    }
    assert b"no API key" in penstock("key", "revoke", "--data", data, made["id"], "--yes", expected=3).stderr
    assert b"no API key" in penstock("acl", "check", "--data", data, made["user"], "browse", "q", expected=3).stderr
    assert said("key", "list", "--data", data) == "no API keys yet\n"


def test_a_lifetime_that_is_none_is_wrong_usage(tmp_path: Path) -> None:
    assert (
        b"--expires" in penstock("key", "create", "--data", tmp_path / "data", "--expires", "soon", expected=2).stderr
    )
    assert (
        b"expires_in is 1s to 3650d, not 0s"
        in penstock("key", "create", "--data", tmp_path / "data", "--expires", "0s", expected=1).stderr
    )


def test_a_revoked_key_stops_an_mqtt_session(tmp_path: Path) -> None:
    with running(tmp_path, Setup(auth=AuthOptions())) as mqtt:
        key, text = mqtt.wait(mqtt.access.users.add_key(["producer", "consumer"]))
        client = mqtt.client("c1", username=f"key:{key.id}", password=text.encode())
        assert client.subscribe("a/#", "$SYS/#", qos=1)[1] is ReasonCode.NOT_AUTHORIZED

        def published() -> ReasonCode:
            client.send(Publish("b", b"x", 1, packet_id=client.next_id()))
            return client.expect(PubAck).reason

        assert not published().is_refusal
        mqtt.wait(mqtt.access.users.remove_key(key.id))
        assert published() is ReasonCode.NOT_AUTHORIZED
        again = mqtt.opened("c2")
        assert again.connect(username=None, password=text.encode()).reason.is_refusal
