"""Runs a script against RabbitMQ and Penstock: what a printed script calls."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.differential.amqp091.brokers import both
from tests.differential.amqp091.compare import difference, played
from tests.differential.amqp091.script import from_plain


def run(steps: Sequence[Mapping[str, Any]]) -> None:
    script = [from_plain(step) for step in steps]
    with tempfile.TemporaryDirectory() as directory, both(Path(directory)) as (reference, here):
        found = difference(script, played(reference, script), played(here, script))
    print(found or "they say the same")
