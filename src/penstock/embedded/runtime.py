"""A data directory open in this process: the broker with its thread, which goes when the process does."""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from penstock.broker.broker import Broker, BrokerOptions
from penstock.broker.publish.publisher import Publisher
from penstock.broker.queues.queue import Queue
from penstock.broker.visits import Visits
from penstock.core.errors import DirectoryInUse, InvalidArgument, InvalidSetting, QueueExists
from penstock.embedded.bridge import Bridge, Caller, Handed, T, Work
from penstock.embedded.shared_loop import CAN_HOLD_SIGNALS
from penstock.log.threads import SWITCH_INTERVAL_S
from penstock.log.upkeep.allocation import keep_freed_memory
from penstock.queues.names import DEFAULT_NAMESPACE
from penstock.queues.settings import change, parse_queue


class Runtime:
    """run(), wait(), post() and close() are for any thread but the broker's; coroutines run on the broker's loop."""

    def __init__(
        self,
        directory: Path | str,
        durability: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        options: BrokerOptions | None = None,
    ) -> None:
        self.directory, self.namespace = Path(directory), namespace
        self._defaults: dict[str, object] = {} if durability is None else {"durability": durability}
        parse_queue({"name": "any", **self._defaults})  # a default that no queue can have is refused here
        self._options = options or BrokerOptions()
        self._bridge = Bridge(f"penstock {self.directory}")
        self.visit = self._bridge.visit
        """for a thread that has looked at check_caller()"""
        self._pid = os.getpid()
        self._closing = threading.Lock()
        self._is_closed = False
        self._threads = threading.local()
        self.before_closing: list[Callable[[], Awaitable[None]]] = []
        """called on the loop"""
        self.broker: Broker

    # The thread

    def start(self) -> None:
        """Before open() is run. A finished sync is noticed late at Python's own switch interval."""
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_INTERVAL_S))
        keep_freed_memory()
        self._bridge.start()

    async def open(self) -> None:
        self.broker = await Broker.open(self.directory, self._options)
        # In debug mode, a loop insists on its own thread.
        if CAN_HOLD_SIGNALS and not asyncio.get_running_loop().get_debug():
            self._bridge.visits = Visits(self.broker.shard, self.broker.ledger)
        self._bridge.ended = self.broker.publishing.joint.refuse
        _opened.add(self)

    def abandon(self) -> None:
        """open() failed."""
        self._is_closed = True
        self._bridge.stop()

    def run(self, work: Work[T]) -> T:
        self.check_caller(work)
        return self._bridge.run(work)

    async def wait(self, work: Work[T]) -> T:
        self.check_caller(work)
        return await self._bridge.wait(work)

    async def ask_and_wait(self, question: Callable[[Caller[T]], None]) -> T:
        """As wait(), for a question that somebody else will answer to the caller."""
        self.check_caller()
        return await self._bridge.ask_and_wait(question)

    def post(self, work: Work[T], caller: Caller[T]) -> None:
        self._refuse_fork(work)
        self._bridge.post(work, caller)

    def hand(self, call: Handed) -> None:
        """See Bridge.hand()."""
        self._refuse_fork(None)
        self._bridge.hand(call)

    def close(self) -> None:
        """Finish what is under way and let go of the directory. Calling it again, or in a fork, does nothing."""
        if os.getpid() != self._pid:
            return
        with self._closing:
            if self._is_closed:
                return
            self._is_closed = True
            try:
                self._bridge.run(self._close())
            finally:
                self._bridge.stop()
                _opened.discard(self)

    async def _close(self) -> None:
        try:
            for hook in self.before_closing:
                await hook()
        finally:
            await self.broker.close()

    def check_caller(self, work: Work[T] | None = None) -> None:
        """Before one waits: DirectoryInUse in a fork, InvalidArgument in the middle of another call."""
        if os.getpid() != self._pid:
            self._refuse_fork(work)
        if self._bridge.is_busy_here:
            if work is not None:
                work.close()
            raise InvalidArgument(
                f"{self.directory} was used in the middle of a call, by what that call ran: a finalizer or a log "
                f"handler. Let a thread of its own do that"
            )

    def _refuse_fork(self, work: Work[T] | None) -> None:
        if os.getpid() != self._pid:
            if work is not None:
                work.close()
            raise DirectoryInUse(
                str(self.directory),
                f"process {self._pid}, and this process ({os.getpid()}) was forked from it. "
                f"Open directories after forking, each in one process",
            )

    # Queues

    @property
    def publisher(self) -> Publisher:
        """Of the calling thread: messages without a key keep the order in which one thread sends them."""
        found: Publisher | None = getattr(self._threads, "publisher", None)
        if found is None:
            found = self._threads.publisher = self.broker.publisher()
        return found

    def find(self, name: str) -> Queue:
        """NoSuchQueue if there is none."""
        return self.broker.queue(name, self.namespace)

    def known(self, name: str) -> Queue | None:
        """The queue of that name, if it is there."""
        declaring = self.broker.declaring
        return declaring.queues.get((self.namespace, declaring.named(name, self.namespace)))

    async def ensure(self, name: str) -> Queue:
        """The queue of that name, made if need be and allowed."""
        return await self.broker.publishing.routes.made(self.wanted(name), [])

    def wanted(self, name: str) -> Queue:
        """The queue of that name to publish to, made or not: see Declaring.wanted()."""
        return self.known(name) or self.broker.declaring.wanted(name, self._explicit({}))

    async def declare(self, name: str, settings: Mapping[str, object]) -> Queue:
        """A queue that is there already is as good if it has these settings, else QueueExists."""
        declaring = self.broker.declaring
        name = declaring.named(name, self.namespace)
        found = declaring.queues.get((self.namespace, name))
        if found is None:
            return await declaring.declared(declaring.settings_for(name, self._explicit(settings)))
        try:
            is_same = change(found.own, {**settings, "name": found.name}) == found.own
        except InvalidSetting as error:
            raise QueueExists(found.name) from error
        if not is_same:
            raise QueueExists(found.name)
        await declaring.keep(found)
        return found

    def _explicit(self, settings: Mapping[str, object]) -> dict[str, object]:
        return {"namespace": self.namespace, **self._defaults, **settings}


def named_settings(queue: str | Mapping[str, object], settings: Mapping[str, object]) -> tuple[str, dict[str, object]]:
    """Of a queue declared by name and keywords, or by a mapping with its name in it."""
    if isinstance(queue, str):
        return queue, dict(settings)
    merged = {**queue, **settings}
    name = merged.pop("name", None)
    if not isinstance(name, str):
        raise InvalidArgument("a queue needs a name: declare('orders') or declare({'name': 'orders'})")
    return name, merged


_opened: set[Runtime] = set()


def _close_forgotten() -> None:
    for runtime in list(_opened):
        runtime.close()


atexit.register(_close_forgotten)
