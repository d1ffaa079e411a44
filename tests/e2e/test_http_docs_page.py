"""The page that describes the API, in a real browser that can reach nothing else."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.conftest import not_tested
from tests.support.http_browser import NoBrowser, browsing
from tests.support.live_server import live_server

from penstock.gateways.http.server.routes import WEBSOCKET
from penstock.gateways.http.table import ROUTES

_OPEN = """(() => {
  const found = [...document.querySelectorAll("details")].find((each) => each.dataset.words.startsWith(%r));
  found.open = true;
  return true;
})()"""
_FILL = """(() => {
  const found = document.querySelector("details[open]");
  found.querySelector("input").value = "from the page";
  found.querySelector("textarea").value = JSON.stringify({text: "größe"});
  found.querySelector("button").click();
  return true;
})()"""
_ANSWER = """(() => {
  const found = document.querySelector("details[open] .row ~ pre");
  return found && !found.hidden && found.textContent !== "…" ? found.textContent : "";
})()"""


def test_the_page_lists_every_request_and_sends_one(tmp_path: Path) -> None:
    spoken = [route for route in ROUTES if route.method != WEBSOCKET]
    with live_server(tmp_path / "server") as server:
        url = f"http://127.0.0.1:{server.ports['http']}/docs"
        try:
            with browsing(url, tmp_path / "profile") as page:
                assert page.until("document.querySelectorAll('details').length") == len(spoken)
                # Markdown of descriptions is rendered, not shown.
                assert page.run("document.querySelectorAll('#introduction p').length") > 0
                assert "`" not in page.run("document.getElementById('introduction').textContent")
                page.run("document.getElementById('search').value = 'purge'")
                page.run("document.getElementById('search').dispatchEvent(new Event('input'))")
                assert page.run("[...document.querySelectorAll('details')].filter((each) => !each.hidden).length") == 1
                page.run(_OPEN % "post /api/v1/queues/{queue}/messages")
                page.until("document.querySelector('details[open] textarea') !== null")
                page.run(_FILL)
                answer = page.until(_ANSWER)
        except NoBrowser as error:
            not_tested("the page of the API in a browser", str(error))
    assert answer.startswith("200") and '"accepted": 1' in answer
