"""A page in a real browser, asked through Chromium's own debugging protocol."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

_PATIENCE_S = 90.0
# Whatever a page wants from elsewhere is not there: it must work offline.
_OFFLINE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
_FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", _OFFLINE]


class NoBrowser(Exception):
    """There is none on this machine."""


class Page:
    def __init__(self, connection: ClientConnection) -> None:
        self._connection, self._numbers = connection, count(1)

    def run(self, script: str) -> Any:
        """What an expression gives, a promise's outcome included."""
        wanted = {"expression": script, "awaitPromise": True, "returnByValue": True}
        said = self._call("Runtime.evaluate", wanted)
        assert "exceptionDetails" not in said, said
        return said["result"].get("value")

    def resize(self, width_px: int, height_px: int) -> None:
        """The window, as a page sees it."""
        size: dict[str, object] = {"width": width_px, "height": height_px, "deviceScaleFactor": 1, "mobile": False}
        self._call("Emulation.setDeviceMetricsOverride", size)

    def _call(self, method: str, params: dict[str, object]) -> dict[str, Any]:
        number = next(self._numbers)
        self._connection.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            said: dict[str, Any] = json.loads(self._connection.recv(_PATIENCE_S))
            if said.get("id") == number:
                return dict(said["result"])

    def until(self, script: str) -> Any:
        """What it gives once that is something."""
        end = time.monotonic() + _PATIENCE_S
        while not (found := self.run(script)):
            assert time.monotonic() < end, (script, self.run("document.body.innerText"))
            time.sleep(0.02)
        return found


@contextmanager
def browsing(url: str, profile: Path) -> Iterator[Page]:
    """NoBrowser."""
    command = shutil.which("chromium") or shutil.which("chromium-browser")
    if command is None:
        raise NoBrowser("chromium is not installed")
    process = subprocess.Popen(
        [command, *_FLAGS, f"--user-data-dir={profile}", "--remote-debugging-port=0", url],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with connect(_page_address(profile, url), max_size=None, open_timeout=_PATIENCE_S, origin=None) as connection:
            yield Page(connection)
    finally:
        process.terminate()
        process.wait(_PATIENCE_S)


def _page_address(profile: Path, url: str) -> str:
    end, port_file = time.monotonic() + _PATIENCE_S, profile / "DevToolsActivePort"
    while time.monotonic() < end:
        if port_file.exists() and len(lines := port_file.read_text().splitlines()) > 1:
            with urllib.request.urlopen(f"http://127.0.0.1:{lines[0]}/json", timeout=_PATIENCE_S) as answer:
                for target in json.load(answer):
                    if target["type"] == "page" and target["url"] == url:
                        return str(target["webSocketDebuggerUrl"])
        time.sleep(0.05)
    raise AssertionError("the browser did not start")
