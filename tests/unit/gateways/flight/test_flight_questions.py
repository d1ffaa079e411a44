from __future__ import annotations

import base64

import pytest
from tests.support.loop import run

from penstock.broker.auth.access import Access
from penstock.gateways.flight.answers import answer
from penstock.gateways.flight.messages import Answer, Question


def asked(authorization: str | None, namespace: str | None = None) -> Answer:
    return run(answer(Access.open_to_all(), Question(7, authorization, "10.0.0.1", namespace, ["a", "b"]), False))


def test_in_development_mode_everybody_may_read_every_queue() -> None:
    login = base64.b64encode(b"ann:secret").decode()
    for said in (None, f"Basic {login}", f"Bearer basic:{login}", "bearer token"):
        found = asked(said)
        assert (found.id, found.namespace, found.may_read, found.error) == (7, "default", [True, True], None)
    assert asked(f"Basic {login}").name == "ann"
    assert asked(None, "other").namespace == "other"


@pytest.mark.parametrize("said", ["", "Digest x", "Basic ?", "Basic YW5u", "Bearer basic:%%", "Basic //8="])
def test_a_header_that_cannot_be_read_is_answered_not_raised(said: str) -> None:
    found = asked(said)
    assert found.error == "bad-credentials"
    assert "the header authorization" in found.reason
