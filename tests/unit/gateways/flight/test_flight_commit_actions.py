"""Whose rights are asked for before an epoch is decided."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.broker import Stage, stage
from tests.support.loop import run
from tests.support.staging import staged

from penstock.broker.auth.identity import Identity
from penstock.broker.auth.permissions import Caches, Permissions, Verdicts
from penstock.broker.auth.rules import Action, Effect, rule
from penstock.core.errors import NotAuthorised
from penstock.gateways.flight.commit_actions import commit
from penstock.gateways.flight.rights import Writer


def writer(name: str, queue: str) -> Writer:
    """A login that may publish to that queue and to no other."""
    rules = [rule(Effect("allow"), Action("publish"), f"$queue/{queue}")]
    return Writer(Identity(name), Permissions(Caches(), lambda: Verdicts.of(rules, name, name)), "default")


def epoch(query: str, *, reset: bool = False) -> bytes:
    """Without rows, for the queue `mine`."""
    body = {"query": query, "epoch": 0, "ranges": [], "pipeline": "nightly", "reset": reset, "queues": ["mine"]}
    return json.dumps(body).encode()


async def nightly(s: Stage) -> None:
    """A pipeline into the queue `theirs` that is nobody's: its epochs are from before names had owners."""
    queue = await s.queue("theirs")
    await s.queue("mine")
    await s.broker.staging.commit("known", 0, [await staged(s, queue, b"x")], pipeline="nightly")
    await s.broker.staging.commit("known", 1, [], pipeline="nightly")


def test_a_name_that_is_nobodys_is_taken_only_by_who_may_publish_where_it_publishes(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            await nightly(s)
            with pytest.raises(NotAuthorised, match="theirs"):
                await commit(s.broker.staging, writer("bob", "mine"), epoch("other", reset=True))
            assert s.broker.staging.epochs("other") == []
            await commit(s.broker.staging, writer("ann", "+"), epoch("other", reset=True))
            assert s.broker.staging.epochs("other") == [0]

    run(main())
