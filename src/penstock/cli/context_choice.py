"""Contexts as commands find and complete them."""

from __future__ import annotations

import os
from collections.abc import Mapping

import click

from penstock.core.errors import PenstockError
from penstock.server.context import Context, Contexts, context_file, read_contexts


def contexts_of(variables: Mapping[str, str]) -> Contexts:
    return read_contexts(context_file(variables))


def find_context(name: str | None, variables: Mapping[str, str]) -> Context | None:
    """That of the name, of the environment, or the current one."""
    name = name or variables.get("PENSTOCK_CONTEXT")
    contexts = contexts_of(variables)
    return contexts.named(name) if name else contexts.current


def complete_context(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Where nothing can be found, nothing is completed and nothing said."""
    try:
        names = list(contexts_of(os.environ).contexts)
    except (PenstockError, OSError):
        return []
    return [name for name in names if name.startswith(incomplete)]
