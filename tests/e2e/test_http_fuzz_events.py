"""Event streams, asked everything that their description allows and much that it does not: by the strategies of
schemathesis, with a reader that does not wait for an end that never comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, assume, given, seed, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.core.parameters import ParameterLocation
from tests.support.http_client import HttpClient
from tests.support.http_fuzz import ENDLESS
from tests.support.http_fuzz_hooks import QUEUE
from tests.support.live_server import LiveServer, live_server

_EXAMPLES = 60
_PATIENCE_S = 30.0
# Of names and filters that lead nowhere the server says so in most of the cases.
_KNOWN = {"queue": QUEUE}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with live_server(tmp_path_factory.mktemp("server"), ["storage.disk_reserve=0", "log.level=warning"]) as running:
        client = HttpClient(("127.0.0.1", running.ports["http"]))
        client.publish(QUEUE, "a", "b")
        client.close()
        yield running
        assert "Traceback" not in running.said()


def url_of(server: LiveServer) -> str:
    return f"http://127.0.0.1:{server.ports['http']}"


def cases(server: LiveServer, path: str, mode: GenerationMode) -> st.SearchStrategy[Case[Any]]:
    document = schemathesis.openapi.from_url(f"{url_of(server)}/openapi.json")
    return document[path]["GET"].as_strategy(generation_mode=mode)


def for_all(strategy: st.SearchStrategy[Case[Any]], check: Callable[[Case[Any]], None]) -> None:
    usual = settings(max_examples=_EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    seed(1)(usual(given(strategy)(check)))()


def ask(server: LiveServer, case: Case[Any]) -> requests.Response:
    sent = case.as_transport_kwargs(base_url=url_of(server))
    with requests.Session() as session:
        answer = session.request(**sent, stream=True, timeout=_PATIENCE_S)
        check_answer(answer)
        answer.close()
    return answer


def check_answer(answer: requests.Response) -> None:
    """A stream begins as one; what is refused is a problem that says what to do."""
    assert answer.status_code < 500, answer.text
    assert answer.headers["Penstock-Request-Id"]
    kind = answer.headers["Content-Type"]
    if answer.status_code == 200:
        assert kind.startswith("text/event-stream")
        assert next(answer.iter_lines(chunk_size=1)).startswith(b"retry: ")
    else:
        problem = answer.json()
        assert kind == "application/problem+json"
        assert problem["status"] == answer.status_code and problem["code"] and problem["detail"]


def test_what_schemathesis_leaves_out_is_what_is_asked_here(server: LiveServer) -> None:
    paths = requests.get(f"{url_of(server)}/openapi.json", timeout=_PATIENCE_S).json()["paths"]
    streams = {
        path for path, methods in paths.items() for operation in methods.values()
        if "text/event-stream" in operation["responses"].get("200", {}).get("content", {})
    }  # fmt: skip
    assert streams == set(ENDLESS)


@pytest.mark.faults
@pytest.mark.parametrize("path", ENDLESS)
def test_what_the_description_allows_is_streamed_or_refused_for_a_reason(server: LiveServer, path: str) -> None:
    seen: set[int] = set()

    def check(case: Case[Any]) -> None:
        for name in case.path_parameters or {}:
            case.path_parameters[name] = _KNOWN.get(name, case.path_parameters[name])
        if case.query and "namespace" in case.query:
            del case.query["namespace"]
        if case.query and "filter" in case.query and len(seen) % 2:
            case.query["filter"] = "a/#"
        seen.add(ask(server, case).status_code)

    for_all(cases(server, path, GenerationMode.POSITIVE), check)
    assert 200 in seen


@pytest.mark.faults
@pytest.mark.parametrize("path", ENDLESS)
def test_what_it_does_not_allow_is_refused(server: LiveServer, path: str) -> None:
    def check(case: Case[Any]) -> None:
        # In development mode every login will do: what is wrong must be in the path or the query.
        assert case.meta is not None
        wrong = [place for place, part in case.meta.components.items() if part.mode.is_negative]
        assume(any(place != ParameterLocation.HEADER for place in wrong))
        # A parameter without a value is not sent.
        assume(all(value != [] for value in (case.query or {}).values()))
        assert 400 <= ask(server, case).status_code < 500

    for_all(cases(server, path, GenerationMode.NEGATIVE), check)
    assert server.is_up
