"""Hooks of schemathesis: what it may send without harm to the machine it runs on, and names that lead somewhere."""

from __future__ import annotations

import os
from itertools import count
from typing import Any

import schemathesis
from schemathesis import Case, HookContext

PLACE = "PENSTOCK_FUZZ_PLACE"
"""variable of the environment: below this directory everything may be written"""
TAME = "PENSTOCK_FUZZ_TAME"
"""variable of the environment: if it is set, values are of a kind that only their shape could be refused for"""
QUEUE = "fuzzed"
_PARTITIONS = 10
_KNOWN = {"queue": QUEUE, "group": "default", "topic": "fuzzed/topic", "name": "fuzzed", "id": "fuzzed"}
_LONGEST_WAIT_S = 30
_backups = count()


@schemathesis.hook
def before_call(context: HookContext, case: Case[Any], kwargs: dict[str, Any]) -> None:
    if case.meta is not None and case.meta.generation.mode.is_positive:
        _lead_somewhere(case)
    if os.environ.get(TAME):
        _tame(case)
    body = case.body
    if isinstance(body, dict) and case.path.endswith("/backup"):
        _write_below(body)
    if isinstance(body, dict) and case.path.endswith("/receive"):
        _wait_shortly(body)


def _lead_somewhere(case: Case[Any]) -> None:
    """Random names are those of nothing: three of four become known ones."""
    for name, value in (case.path_parameters or {}).items():
        if len(str(value)) % 4:
            case.path_parameters[name] = _KNOWN.get(name, value)
    if case.query and len(str(case.query.get("namespace"))) % 4:
        case.query.pop("namespace", None)


def _tame(case: Case[Any]) -> None:
    """Partitions are there, no place is named twice, users of SCRAM are spelled plainly, and of settings those are left
    out that have to go together with others."""
    body: Any = case.body
    query: dict[str, Any] = case.query or {}
    if isinstance(body, dict):
        _go_together(body)
        _spell_plainly(body)
        if isinstance(body.get("partitions"), list):
            body["partitions"] = [int(number) % _PARTITIONS for number in body["partitions"]]
        for message in [body, *(body["messages"] if isinstance(body.get("messages"), list) else [])]:
            message.pop("partition", None)
    for name in ("partition", "cursor", "last_event_id"):
        if ":" in str(query.get(name)) or name == "partition":
            query.pop(name, None)


def _spell_plainly(user: dict[str, Any]) -> None:
    """SCRAM takes what SASLprep (RFC 4013) allows in a name and a password, which no schema can say."""
    if user.get("scram", True) and "password" in user:
        user |= {name: "plain" for name in ("name", "password") if isinstance(user.get(name), str)}


def _go_together(settings: dict[str, Any]) -> None:
    for section, names in (
        ("retry_policy", ("initial_backoff", "max_backoff")),
        ("dlq_config", ("topic", "alert_webhook")),
    ):
        if isinstance(settings.get(section), dict):
            settings[section] = {name: each for name, each in settings[section].items() if name not in names}


def _write_below(body: dict[str, Any]) -> None:
    target = body.get("target")
    if isinstance(target, str) and target.startswith("/"):
        body["target"] = f"{os.environ[PLACE]}/backups/{len(target)}-{next(_backups)}"


def _wait_shortly(body: dict[str, Any]) -> None:
    wait_s = body.get("wait")
    if isinstance(wait_s, int | float) and 0 < wait_s <= _LONGEST_WAIT_S:
        body["wait"] = 0.01
