"""Server-sent events in a real browser."""

from __future__ import annotations

import json
import queue
from pathlib import Path
from urllib.parse import quote

from tests.e2e.interop.node_peer import HERE
from tests.e2e.test_interop_browser import browser, page_server
from tests.support.http_gateway import HttpSetup, RunningHttp, running_http

from penstock.gateways.http.options import HttpOptions

_PATIENCE_S = 90.0


class Page:
    """What it posts: that it has opened a stream, and each message."""

    def __init__(self, posted: queue.Queue[bytes]) -> None:
        self._posted = posted
        self.texts: list[str] = []
        self.openings = 0

    def until(self, *, texts: int = 0, openings: int = 0) -> None:
        while len(self.texts) < texts or self.openings < openings:
            said = json.loads(self._posted.get(timeout=_PATIENCE_S))
            if "opened" in said:
                self.openings += 1
            else:
                self.texts.append(said["text"])


def put(http: RunningHttp, first: int, count: int) -> None:
    for number in range(first, first + count):
        http.put("q", b"%d" % number, keys=[b"k%d" % number])


def test_a_page_goes_on_after_restarts_without_loss_or_repetition(tmp_path: Path) -> None:
    with page_server({"/page.html": HERE / "events.html"}) as (page_port, posted):
        setup = HttpSetup(HttpOptions(cors_origins=(f"http://127.0.0.1:{page_port}",)))
        with running_http(tmp_path / "data", setup) as http:
            http.declare(partitions=3)
            put(http, 0, 20)
            events = quote(f"http://127.0.0.1:{http.port}/api/v1/queues/q/events?from=earliest")
            page = Page(posted)
            with browser(f"http://127.0.0.1:{page_port}/page.html?events={events}", tmp_path / "profile"):
                page.until(texts=20, openings=1)
                put(http, 20, 10)
                http.restart()
                put(http, 30, 10)
                page.until(texts=40, openings=2)
                http.restart()
                put(http, 40, 10)
                page.until(texts=50, openings=3)
    assert sorted(page.texts, key=int) == [str(number) for number in range(50)]
