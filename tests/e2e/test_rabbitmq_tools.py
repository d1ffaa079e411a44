"""RabbitMQ's own tools, and requests of others as they send them, at the listener that they expect."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.live_server import LiveServer, live_server

ADMIN_TOOL = shutil.which("rabbitmqadmin")
needs_tool = pytest.mark.skipif(ADMIN_TOOL is None, reason="rabbitmqadmin comes with Debian's rabbitmq-server")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    settings = ["listeners.rabbitmq_api.port=0"]
    with live_server(tmp_path_factory.mktemp("server"), settings) as running:
        yield running


def admin(server: LiveServer, *arguments: str, vhost: str = "/", is_refused: bool = False) -> Any:
    """What it printed, as JSON where it is a list."""
    assert ADMIN_TOOL is not None
    port = str(server.ports["rabbitmq_api"])
    where = ["-H", "127.0.0.1", "-P", port, "-u", "guest", "-p", "guest", "-V", vhost, "-f", "raw_json"]
    ran = subprocess.run(
        [sys.executable, ADMIN_TOOL, *where, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode != 0) == is_refused, ran
    said = ran.stderr if is_refused else ran.stdout
    return json.loads(said) if said.startswith(("[", "{")) else said


def asked(server: LiveServer, path: str) -> Any:
    """With basic auth, as Flower and KEDA do."""
    login = {"Authorization": "Basic " + b64encode(b"guest:guest").decode()}
    url = f"http://127.0.0.1:{server.ports['rabbitmq_api']}{path}"
    with urllib.request.urlopen(urllib.request.Request(url, headers=login), timeout=20) as answer:
        return json.load(answer)


@needs_tool
def test_rabbitmqadmin_declares_publishes_gets_and_deletes(server: LiveServer) -> None:
    admin(server, "declare", "queue", "name=orders.dlq", 'arguments={"x-message-ttl":60000}')
    admin(server, "declare", "exchange", "name=bus", "type=topic")
    admin(server, "declare", "binding", "source=bus", "destination=orders.dlq", "routing_key=eu.#")
    assert "Message published" in admin(server, "publish", "exchange=bus", "routing_key=eu.de", "payload=hello")
    assert "NOT routed" in admin(server, "publish", "exchange=bus", "routing_key=us", "payload=hello")
    [queue] = admin(server, "list", "queues", "name", "messages", "durable")
    assert queue == {"name": "orders.dlq", "messages": 1, "durable": True}
    [message] = admin(server, "get", "queue=orders.dlq", "ackmode=ack_requeue_false")
    assert (message["payload"], message["exchange"], message["routing_key"]) == ("hello", "bus", "eu.de")
    refused = admin(server, "declare", "queue", "name=orders.dlq", is_refused=True)
    assert "inequivalent arg 'x-message-ttl' for queue 'orders.dlq' in vhost '/'" in refused
    admin(server, "purge", "queue", "name=orders.dlq")
    admin(server, "delete", "queue", "name=orders.dlq")
    admin(server, "delete", "exchange", "name=bus")
    assert admin(server, "list", "queues") == []


@needs_tool
def test_rabbitmqadmin_exports_what_it_imports_again(server: LiveServer, tmp_path: Path) -> None:
    admin(server, "declare", "vhost", "name=/shop")
    admin(server, "declare", "queue", "name=a//b", vhost="/shop")
    admin(server, "declare", "policy", "name=ttl", "pattern=^a", 'definition={"message-ttl":5000}', vhost="/shop")
    assert admin(server, "list", "queues", "name", "policy", vhost="/shop") == [{"name": "a//b", "policy": "ttl"}]
    file = tmp_path / "defs.json"
    admin(server, "export", str(file), vhost="/shop")
    admin(server, "delete", "queue", "name=a//b", vhost="/shop")
    admin(server, "delete", "policy", "name=ttl", vhost="/shop")
    admin(server, "import", str(file), vhost="/shop")
    assert admin(server, "list", "queues", "name", "policy", vhost="/shop") == [{"name": "a//b", "policy": "ttl"}]
    for what in ("exchanges", "bindings", "connections", "channels", "consumers", "nodes", "vhosts", "users"):
        admin(server, "list", what)
    [overview] = admin(server, "show", "overview")
    assert overview["rabbitmq_version"] == "3.13.7"
    admin(server, "delete", "queue", "name=a//b", vhost="/shop")


def test_flower_and_keda_find_what_they_ask_for(server: LiveServer) -> None:
    """Flower lists a virtual host, whose `/` it writes as it is; KEDA asks for one queue, or for those of a pattern."""
    for name in ("celery", "celery.pidbox"):
        _put(server, f"/api/queues/%2F/{name}", {"durable": True})
    of_flower = {each["name"]: each for each in asked(server, "/api/queues//")}
    assert of_flower.keys() == {each["name"] for each in asked(server, "/api/queues/%2F")}
    for key in ("messages", "messages_ready", "messages_unacknowledged", "consumers", "idle_since"):
        assert key in of_flower["celery"]
    of_keda = asked(server, "/api/queues/%2F/celery")
    assert of_keda["messages"] == of_keda["messages_unacknowledged"] == 0
    assert of_keda["message_stats"]["publish_details"]["rate"] == 0.0
    assert of_keda["message_stats"]["deliver_get_details"]["rate"] == 0.0
    page = asked(server, "/api/queues/%2F?page=1&use_regex=true&pagination=false&name=%5Ecelery&page_size=100")
    assert {each["name"] for each in page["items"]} == {"celery", "celery.pidbox"}
    with pytest.raises(urllib.error.HTTPError) as caught:
        asked(server, "/api/queues/%2F/none")
    with caught.value:
        assert caught.value.code == 404


def _put(server: LiveServer, path: str, body: object) -> None:
    login = {"Authorization": "Basic " + b64encode(b"guest:guest").decode()}
    url = f"http://127.0.0.1:{server.ports['rabbitmq_api']}{path}"
    request = urllib.request.Request(url, json.dumps(body).encode(), login, method="PUT")
    with urllib.request.urlopen(request, timeout=20) as answer:
        assert answer.status == 201
