"""`penstock pipeline report` in a real browser, as wide as a telephone, that can reach nothing else."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.conftest import not_tested
from tests.support.cli import penstock as run_command
from tests.support.http_browser import NoBrowser, browsing

import penstock

_FACTS = """JSON.stringify({
  plots: [...document.querySelectorAll("svg[role=img]")].map((plot) => plot.getBoundingClientRect().width),
  drawn: [...document.querySelectorAll("[role=img] .bar, [role=img] .area")].every((each) => each.getBBox().width),
  titles: [...document.querySelectorAll("h3")].map((title) => title.textContent),
  overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  fetched: performance.getEntriesByType("resource").length,
  small: [...document.querySelectorAll("td, th, p")].some((each) => parseFloat(getComputedStyle(each).fontSize) < 12),
})"""
# Tables that are wider are scrolled by themselves.
_OVERFLOW = """(() => {
  document.body.style.width = "WIDTH";
  const edge = document.body.getBoundingClientRect().right;
  const found = [...document.body.querySelectorAll("*")].filter((each) => !each.closest("table"));
  return Math.max(...found.map((each) => each.getBoundingClientRect().right - edge));
})()"""


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
            overflow_px = {width: page.run(_OVERFLOW.replace("WIDTH", width)) for width in ("360px", "1440px")}
    except NoBrowser as error:
        not_tested("the page of a report in a browser", str(error))
    assert len(facts["plots"]) == 4 and all(width > 100 for width in facts["plots"])
    assert facts["drawn"] and not facts["small"]
    assert facts["overflow"] <= 0 and max(overflow_px.values()) <= 0, overflow_px
    assert facts["fetched"] == 0
    assert {"Hot keys", "Lag", "Retries", "Dead letters", "From publish to settlement"} <= set(facts["titles"])


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    with penstock.open(tmp_path / "data") as database:
        database.put("orders", b"x")
    ran = run_command("pipeline", "report", "--data", tmp_path / "data", "--to", tmp_path / "a.html", "--dry-run")
    assert b"would read about" in ran.stdout
    assert not (tmp_path / "a.html").exists()
