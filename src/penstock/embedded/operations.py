"""What both faces ask of the broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from penstock.broker.descriptions import describe_group, describe_queue
from penstock.broker.letters.letters import Selection, dead_letter_queue_of
from penstock.broker.letters.redrive import RedriveOptions, Report, redrive
from penstock.broker.publish.publisher import Publisher
from penstock.broker.queues.group import Group
from penstock.broker.queues.queue import Placed
from penstock.broker.queues.start import Start
from penstock.core.descriptions import GroupDescription, QueueDescription
from penstock.core.errors import InvalidArgument
from penstock.embedded.bridge import Caller
from penstock.embedded.inlet import Inlet
from penstock.embedded.outgoing import Parts
from penstock.embedded.runtime import Runtime
from penstock.log.columns import Columns
from penstock.queues.names import parse_group_name


class Operations:
    """Coroutines run on the broker's loop; each returns when what it changed is durable as the queue asks."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._inlets: dict[str, Inlet] = {}

    # Publishing

    def put(self, queue: str, parts: Parts, partition: int | None) -> Callable[[Caller[str]], None]:
        """For a task: the question whose answer is the id of the message."""
        publisher, inlet = self._runtime.publisher, self.inlet(queue)
        return lambda caller: inlet.put(parts, publisher, partition, caller)

    def inlet(self, queue: str) -> Inlet:
        """For any thread."""
        return self._inlets.get(queue) or self._inlets.setdefault(queue, Inlet(self._runtime, queue))

    def put_many_and_wait(self, queue: str, columns: Columns, partition: int | None) -> list[Placed]:
        """For a thread, which waits."""
        runtime = self._runtime
        runtime.check_caller()
        publisher, placed = runtime.publisher, list[Placed]()

        def stage() -> asyncio.Future[None] | None:
            nonlocal placed
            found = runtime.known(queue)
            staged = None if found is None else runtime.broker.publishing.put_now(found, columns, publisher, partition)
            if staged is None:
                return None
            placed, committed = staged
            return committed

        return placed if runtime.visit(stage) else runtime.run(self.put_many(queue, columns, publisher, partition))

    async def put_many(self, queue: str, columns: Columns, publisher: Publisher, partition: int | None) -> list[Placed]:
        publishing = self._runtime.broker.publishing
        found = await publishing.routes.made(self._runtime.wanted(queue), [columns], partition)
        return (await publishing.put(found, columns, publisher, partition)).placed

    async def publish(self, columns: Columns, publisher: Publisher) -> list[str]:
        """The queues that took it."""
        runtime = self._runtime
        found = await runtime.broker.publishing.publish(columns, publisher, runtime.namespace)
        return [published.queue.name for published in found]

    # Groups

    def _group(self, queue: str, group: str) -> Group:
        return self._runtime.find(queue).group(parse_group_name(group))

    async def commit(self, queue: str, group: str, partition: int, offset: int) -> int:
        found = self._group(queue, group)
        unit = found.queue.units.get(partition)
        if unit is None:
            if not 0 <= partition < found.queue.settings.partitions:
                raise InvalidArgument(f"queue {queue!r} has no partition {partition}")
            return 0
        return await self._runtime.broker.settling.commit(found, unit, offset)

    async def replay(self, queue: str, group: str, start: str) -> None:
        found = await self._runtime.broker.group(self._runtime.find(queue), parse_group_name(group))
        await self._runtime.broker.declaring.seek(found, Start.parse(start))

    # Administration

    async def declare(self, queue: str, settings: Mapping[str, object]) -> str:
        return (await self._runtime.declare(queue, settings)).name

    async def change(self, queue: str, settings: Mapping[str, object]) -> None:
        await self._runtime.broker.declaring.change(self._runtime.find(queue), settings)

    async def pause(self, queue: str, group: str | None, is_paused: bool) -> None:
        declaring = self._runtime.broker.declaring
        if group is None:
            await declaring.pause(self._runtime.find(queue), is_paused)
        else:
            await declaring.pause_group(self._group(queue, group), is_paused)

    async def purge(self, queue: str) -> int:
        return await self._runtime.broker.declaring.purge(self._runtime.find(queue))

    async def delete(self, queue: str, group: str | None) -> None:
        declaring = self._runtime.broker.declaring
        if group is None:
            await declaring.delete(self._runtime.find(queue))
        else:
            await declaring.delete_group(self._group(queue, group))

    async def describe(self, queue: str) -> QueueDescription:
        return await describe_queue(self._runtime.find(queue), self._runtime.broker.wall())

    async def queues(self) -> list[str]:
        return sorted(queue.name for queue in self._runtime.broker.queues if queue.namespace == self._runtime.namespace)

    async def groups(self, queue: str) -> list[GroupDescription]:
        now = self._runtime.broker.wall()
        return [await describe_group(group, now) for group in list(self._runtime.find(queue).groups.values())]

    async def redrive(self, queue: str, options: RedriveOptions, to: str | None) -> Report:
        """Of the dead letters of a queue, or of a queue of dead letters."""
        broker, space = self._runtime.broker, self._runtime.namespace
        letters = dead_letter_queue_of(broker, queue, space)
        if letters is None:
            return Report()
        target = None if to is None else broker.queue(to, space)
        return await redrive(broker, letters, replace(options, to=target))


def redrive_options(
    ids: Collection[str], group: str | None, to_all_groups: bool, rate: float | None, limit: int | None
) -> RedriveOptions:
    selection = Selection(ids=frozenset(ids), groups=frozenset(() if group is None else (group,)))
    return RedriveOptions(selection=selection, is_to_all_groups=to_all_groups, rate=rate, limit=limit)
