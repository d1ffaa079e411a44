"""amqplib and amqp-client.js under Node."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.e2e.amqp091.broker import AmqpBroker

PEER = Path(__file__).with_name("amqp_peer.js")


@pytest.mark.parametrize("library", ["amqplib", "amqp-client"])
def test_a_program_of_node_sees_what_it_must(broker: AmqpBroker, library: str, name: str, node_modules: Path) -> None:
    url = f"amqp://guest:guest@127.0.0.1:{broker.port}/"
    ran = subprocess.run(
        ["node", PEER, library, url, name],
        capture_output=True,
        env={**os.environ, "NODE_PATH": str(node_modules)},
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    assert json.loads(ran.stdout) == {
        "stored": 500,
        "inOrder": True,
        "returned": "lost",
        "same": True,
        "empty": False,
        "closed": 404,
    }
