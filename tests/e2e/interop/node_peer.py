"""MQTT.js as a peer: a Node process that is told what to do."""

from __future__ import annotations

import base64
import json
import os
import queue
import shutil
import subprocess
import threading
from functools import cache
from pathlib import Path

from tests.e2e.interop.peers import DEADLINE_S, FOR_LONG_S, WS_PATH, Came, Place, Will
from tests.support.faults import REPOSITORY

HERE = Path(__file__).parent
_INSTALLED = REPOSITORY / "build" / "interop"
_INSTALL_S = 300.0


class CannotInstall(Exception):
    """There is no Node here, or no registry; the text says which."""


@cache
def modules() -> Path:
    """Where libraries of Node are, installed from package.json the first time; CannotInstall if it cannot be."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise CannotInstall("node and npm are not installed")
    wanted: dict[str, str] = json.loads((HERE / "package.json").read_text())["dependencies"]
    if any(_installed_version(name) != version for name, version in wanted.items()):
        _INSTALLED.mkdir(parents=True, exist_ok=True)
        shutil.copy(HERE / "package.json", _INSTALLED)
        flags = ["--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
        ran = subprocess.run([npm, "install", *flags], cwd=_INSTALLED, capture_output=True, timeout=_INSTALL_S)
        if ran.returncode:
            raise CannotInstall(f"npm install failed: {ran.stderr.decode(errors='replace')[-300:]}")
    return _INSTALLED / "node_modules"


def _installed_version(name: str) -> str | None:
    there = _INSTALLED / "node_modules" / name / "package.json"
    version: str | None = json.loads(there.read_text())["version"] if there.exists() else None
    return version


class NodePeer:
    def __init__(self, place: Place) -> None:
        self._place = place
        environment = {**os.environ, "NODE_PATH": str(modules())}
        self._process = subprocess.Popen(
            ["node", HERE / "bridge.js"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        self._came: queue.Queue[Came] = queue.Queue()
        self._answers: queue.Queue[dict[str, object]] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            if said["event"] == "message":
                payload = base64.b64decode(said["payload"])
                self._came.put(Came(said["topic"], payload, said["qos"], said["retain"]))
            else:
                self._answers.put(said)

    def _ask(self, command: str, **said: object) -> dict[str, object]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": command, **said}).encode() + b"\n")
        self._process.stdin.flush()
        answer = self._answers.get(timeout=DEADLINE_S)
        assert answer["event"] == "done", answer
        return answer

    def connect(self, client_id: str, *, clean: bool = True, will: Will | None = None) -> bool:
        place, options = self._place, dict[str, object](clientId=client_id, clean=clean)
        options |= {"protocolVersion": place.version}
        if place.version == 5:
            options["properties"] = {"sessionExpiryInterval": 0 if clean else FOR_LONG_S}
        path = WS_PATH if place.is_websocket else ""
        url = f"{'ws' if place.is_websocket else 'mqtt'}://{place.host}:{place.port}{path}"
        told = None if will is None else {"topic": will.topic, "payload": base64.b64encode(will.payload).decode()}
        return bool(self._ask("connect", url=url, options=options, will=told)["present"])

    def subscribe(self, filter: str, qos: int, terms: dict[str, str] | None = None) -> None:
        properties = {"userProperties": terms} if terms and self._place.version == 5 else None
        assert self._ask("subscribe", filter=filter, qos=qos, properties=properties)["granted"] == [qos]

    def publish(self, topic: str, payload: bytes, qos: int = 0, retain: bool = False) -> None:
        self._ask("publish", topic=topic, payload=base64.b64encode(payload).decode(), qos=qos, retain=retain)

    def next(self) -> Came:
        return self._came.get(timeout=DEADLINE_S)

    def disconnect(self) -> None:
        self._ask("disconnect")

    def drop(self) -> None:
        self._ask("drop")

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(DEADLINE_S)
        self._reader.join()
        self._process.stdout.close()
