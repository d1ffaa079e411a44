"""A page in a real browser, with MQTT.js over WebSocket."""

from __future__ import annotations

import json
import queue
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.e2e.conftest import not_tested
from tests.e2e.interop.node_peer import HERE
from tests.support.live_server import live_server

_PATIENCE_S = 90.0
_FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]


@contextmanager
def page_server(files: dict[str, Path]) -> Iterator[tuple[int, queue.Queue[bytes]]]:
    """Its port, and what pages post to it."""
    posted: queue.Queue[bytes] = queue.Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = files.get(self.path.partition("?")[0])
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", "text/html" if self.path.startswith("/page") else "text/javascript")
            self.end_headers()
            self.wfile.write(b"" if found is None else found.read_bytes())

        def do_POST(self) -> None:
            posted.put(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1], posted
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def browser(url: str, profile: Path) -> Iterator[None]:
    command = shutil.which("chromium") or shutil.which("chromium-browser")
    if command is None:
        not_tested("MQTT in a browser", "chromium is not installed")
    process = subprocess.Popen(
        [command, *_FLAGS, f"--user-data-dir={profile}", url], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(_PATIENCE_S)


def test_a_page_publishes_subscribes_comes_back_and_consumes(node_modules: Path, tmp_path: Path) -> None:
    files = {"/page.html": HERE / "page.html", "/mqtt.min.js": node_modules / "mqtt" / "dist" / "mqtt.min.js"}
    with page_server(files) as (port, posted):
        allowed = f'listeners.mqtt_ws.allowed_origins=["http://127.0.0.1:{port}"]'
        with live_server(tmp_path / "server", [allowed]) as server:
            url = f"http://127.0.0.1:{port}/page.html?port={server.ports['mqtt_ws']}"
            with browser(url, tmp_path / "profile"):
                found = json.loads(posted.get(timeout=_PATIENCE_S))
    assert found == {
        "plain": [[f"page/größe/{qos}", f"°C {qos}", qos, False] for qos in range(3)],
        "retained": [["page-state", "on", 1, True]],
        "session": [["page-away", str(number), 1, False] for number in range(3)],
        "queue": [["$queue/page-jobs", f"job {number}", 1] for number in range(2)],
    }
