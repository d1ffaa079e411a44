"""Hooks of schemathesis: what it may send without harm to the machine it runs on, and names that lead somewhere."""

from __future__ import annotations

import os
from typing import Any

import schemathesis
from schemathesis import Case, HookContext

PLACE = "PENSTOCK_FUZZ_PLACE"
"""variable of the environment: below this directory everything may be written"""
QUEUE = "fuzzed"
_KNOWN = {"queue": QUEUE, "group": "default", "topic": "fuzzed/topic", "name": "fuzzed", "id": "fuzzed"}
_LONGEST_WAIT_S = 30


@schemathesis.hook
def before_call(context: HookContext, case: Case[Any], kwargs: dict[str, Any]) -> None:
    if case.meta is not None and case.meta.generation.mode.is_positive:
        _lead_somewhere(case)
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


def _write_below(body: dict[str, Any]) -> None:
    target = body.get("target")
    if isinstance(target, str) and target.startswith("/"):
        body["target"] = f"{os.environ[PLACE]}/backups/{len(target)}"


def _wait_shortly(body: dict[str, Any]) -> None:
    wait_s = body.get("wait")
    if isinstance(wait_s, int | float) and 0 < wait_s <= _LONGEST_WAIT_S:
        body["wait"] = 0.01
