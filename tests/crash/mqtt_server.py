"""`penstock serve` to be killed, with everything small: a second of load rolls, writes snapshots, forwards messages and
lets go of logs many times."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace
from unittest import mock

from tests.crash.writer import lie_about_syncs

from penstock.broker import broker as broker_module
from penstock.broker.queues import snapshots
from penstock.broker.sessions import snapshots as session_snapshots
from penstock.broker.sessions.options import SessionOptions
from penstock.broker.topics import topics
from penstock.cli.main import run as run_command
from penstock.server import runtime as wiring
from penstock.server.config import Config

SNAPSHOT_RECORDS, UPKEEP_MS = 100, 150
SEGMENT_BYTES = 64 << 10
CONFIGURATION = """
auth: {development_mode: true}
listeners: {mqtt_ws: null, http: null}
mqtt: {max_queued_messages: 1000000, max_queued_size: 1GiB, sys_interval: none}
log: {level: info}
storage:
  journal_file_size: 1MiB
  journal_size: 4MiB
  checkpoint_size: 1MiB
  checkpoint_interval: 500ms
  disk_reserve: 0
  publish_budget_size: 1MiB
  tail_size: 4MiB
broker:
  templates:
  - {match: "*", settings: {max_deliveries: none, partitions: 3}}
"""


def small_sessions(config: Config, options: object = wiring.session_options) -> SessionOptions:
    assert callable(options)
    made = options(config)
    assert isinstance(made, SessionOptions)
    return replace(made, segment_bytes=SEGMENT_BYTES)


def main(arguments: list[str]) -> int:
    """With `--lie` first, acknowledges without syncing the journal."""
    if arguments[0] == "--lie":
        lie_about_syncs()
        del arguments[0]
    with ExitStack() as patches:
        for module in (snapshots, session_snapshots):
            patches.enter_context(mock.patch.object(module, "RECORDS", SNAPSHOT_RECORDS))
        for module in (broker_module, topics):
            patches.enter_context(mock.patch.object(module, "_UPKEEP_MS", UPKEEP_MS))
        patches.enter_context(mock.patch.object(wiring, "session_options", small_sessions))
        return run_command(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
