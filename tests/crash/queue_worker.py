"""A broker to be killed, with those who publish to it and consume from it, in one process. They tell a history file
what they begin and what was acknowledged to them. Runs until it is ended; with --drain until everything is settled."""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import traceback
from collections.abc import Coroutine
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from tests.crash import queue_clients
from tests.crash.queue_clients import QUEUES, Fleet
from tests.crash.writer import OPTIONS, lie_about_syncs
from tests.support.arrivals import arrivals
from tests.support.queue_history import Drained, Letter, Opening, encode_event, id_of, read_events

from penstock.broker import broker as broker_module
from penstock.broker.broker import Broker, BrokerOptions
from penstock.broker.feed.held import Held
from penstock.broker.queues import snapshots
from penstock.core.errors import NoSuchQueue
from penstock.core.logs import configure_logs
from penstock.queues.deadletter import from_properties

# So that a second of load writes several snapshots of each partition and lets go of the state before them.
SNAPSHOT_RECORDS, UPKEEP_MS = 100, 150
LOOK_S = 0.02


@dataclass
class Work:
    fleet: Fleet
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self, run_number: int, drains: bool) -> None:
        """Ends only when it drains, or when a client has failed."""
        await self.fleet.declare()
        clients = queue_clients.consumers(self.fleet)
        clients += queue_clients.resends(self.fleet) if drains else queue_clients.producers(self.fleet)
        for client in clients:
            self._start(client)
        while not (drains and self._is_drained()):
            await asyncio.sleep(LOOK_S)
            self._end_with_failure()
        for task in self.tasks:
            task.cancel()
        await asyncio.wait(self.tasks)
        await tell_letters(self.fleet)
        self.fleet.tell(Drained(run_number))

    def _start(self, client: Coroutine[object, object, None]) -> None:
        self.tasks.add(asyncio.get_running_loop().create_task(client))

    def _is_drained(self) -> bool:
        fleet = self.fleet
        is_settled = all(fleet.broker.queue(name).depth() == 0 for name in QUEUES)
        return is_settled and not fleet.producing and not fleet.settling

    def _end_with_failure(self) -> None:
        for task in self.tasks:
            if task.done() and (error := task.exception()) is not None:
                traceback.print_exception(error)
                os._exit(1)  # as if killed: what else would fail then is of no interest


async def tell_letters(fleet: Fleet) -> None:
    for source in QUEUES:
        try:
            queue = fleet.broker.queue(f"$dlq/{source}")
        except NoSuchQueue:
            continue
        consumer = fleet.broker.join(await fleet.broker.group(queue, "audit"))
        left = sum(unit.end for unit in queue.units.values())
        while left > 0:
            for delivery in await arrivals(consumer, 1000, 1.0):
                batch = delivery.stored.batch
                for row in delivery.rows:
                    facts = from_properties(batch.properties(row) or b"")
                    assert facts is not None, "a dead letter says nothing of where it came from"
                    place = facts.source.partition, facts.source.offset
                    fleet.tell(Letter(facts.source.queue, facts.group.name, *place, id_of(batch.value(row))))
                left -= (await fleet.broker.settling.ack(Held(delivery))).done


async def run(directory: Path, history: Path, run_number: int, drains: bool) -> None:
    before = read_events(history)
    descriptor = os.open(history, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    fleet_args = descriptor, run_number, random.Random(run_number), drains
    os.write(descriptor, encode_event(Opening(run_number)))
    async with await Broker.open(directory, BrokerOptions(shard=OPTIONS)) as broker:
        await Work(Fleet(broker, *fleet_args, before)).run(run_number, drains)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("history", type=Path)
    parser.add_argument("--run", type=int, default=0)
    parser.add_argument("--drain", action="store_true", help="publish nothing new; settle everything and end")
    parser.add_argument("--lie", action="store_true", help="acknowledge without syncing the journal")
    arguments = parser.parse_args()
    if arguments.lie:
        lie_about_syncs()
    configure_logs("error", "text")
    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(snapshots, "RECORDS", SNAPSHOT_RECORDS))
        patches.enter_context(mock.patch.object(broker_module, "_UPKEEP_MS", UPKEEP_MS))
        asyncio.run(run(arguments.directory, arguments.history, arguments.run, arguments.drain))
    return 0


if __name__ == "__main__":
    sys.exit(main())
