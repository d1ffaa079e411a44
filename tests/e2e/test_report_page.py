"""`penstock pipeline report` in a real browser, from a telephone to a desktop, that can reach nothing else."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.conftest import not_tested
from tests.support.cli import penstock as run_command
from tests.support.http_browser import NoBrowser, Page, browsing

import penstock

_FACTS = """JSON.stringify({
  plots: [...document.querySelectorAll("svg[role=img]")].map((plot) => plot.getBoundingClientRect().width),
  drawn: [...document.querySelectorAll("[role=img] .bar, [role=img] .area")].every((each) => each.getBBox().width),
  titles: [...document.querySelectorAll("h3")].map((title) => title.textContent),
  overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  fetched: performance.getEntriesByType("resource").length,
  small: [...document.querySelectorAll("td, th, p")].some((each) => parseFloat(getComputedStyle(each).fontSize) < 12),
})"""
# How much of the window each side leaves free of plots and tables, and how far anything goes beyond it. Tables that are
# wider are scrolled by themselves.
_EDGES = """JSON.stringify((() => {
  const edge = document.documentElement.clientWidth;
  const found = [...document.body.querySelectorAll("*")].filter((each) => !each.closest("table"));
  const drawn = [...document.querySelectorAll("svg[role=img], table")].map((each) => each.getBoundingClientRect());
  return {
    window: window.innerWidth,
    overflow: Math.max(...found.map((each) => each.getBoundingClientRect().right - edge)),
    left: Math.min(...drawn.map((box) => box.left)),
    right: edge - Math.max(...drawn.map((box) => box.right)),
  };
})())"""
_WINDOWS_PX = (360, 768, 1440, 1920)
# Beside what is drawn a page has margins of two lines of text at most.
_MARGIN_PX = 80


def test_the_page_is_drawn_and_fits_a_telephone_and_a_desktop(tmp_path: Path) -> None:
    with penstock.open(tmp_path / "data") as database:
        database.put_many("orders", [b"x" * 300] * 500, keys=[b"a-key-that-is-long-%d" % (at % 9) for at in range(500)])
        with database.consume("orders", group="a-group-with-a-rather-long-name") as messages:
            for _ in range(100):
                message = messages.get(timeout=10)
                assert message is not None
                message.ack()
    file = tmp_path / "report.html"
    ran = run_command("pipeline", "report", "--data", tmp_path / "data", "--to", file, "-o", "json")
    assert json.loads(ran.stdout)["queues"] == [
        {"queue": "orders", "messages": 500, "bytes": 150_000, "groups": 1, "lag": 400, "dead_letters": 0}
    ]
    try:
        with browsing(file.as_uri(), tmp_path / "profile") as page:
            page.until("document.readyState === 'complete' && document.querySelector('[role=img]') !== null")
            facts = json.loads(page.run(_FACTS))
            edges = [_edges(page, width_px) for width_px in _WINDOWS_PX]
    except NoBrowser as error:
        not_tested("the page of a report in a browser", str(error))
    assert len(facts["plots"]) == 4 and all(width > 100 for width in facts["plots"])
    assert facts["drawn"] and not facts["small"]
    assert facts["overflow"] <= 0
    for each in edges:
        assert each["overflow"] <= 0, each
        assert max(each["left"], each["right"]) <= _MARGIN_PX, each
    assert facts["fetched"] == 0
    assert {"Hot keys", "Lag", "Retries", "Dead letters", "From publish to settlement"} <= set(facts["titles"])


def _edges(page: Page, width_px: int) -> dict[str, float]:
    page.resize(width_px, 900)
    page.until(f"window.innerWidth === {width_px}")
    found: dict[str, float] = json.loads(page.run(_EDGES))
    return found


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    with penstock.open(tmp_path / "data") as database:
        database.put("orders", b"x")
    ran = run_command("pipeline", "report", "--data", tmp_path / "data", "--to", tmp_path / "a.html", "--dry-run")
    assert b"would read about" in ran.stdout
    assert not (tmp_path / "a.html").exists()
