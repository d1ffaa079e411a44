"""`penstock.open()`: the broker for threads."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Unpack

from penstock.broker.broker import BrokerOptions
from penstock.broker.letters.redrive import Report
from penstock.broker.queues.queue import Placed
from penstock.core.closing import Closing
from penstock.core.descriptions import GroupDescription, QueueDescription
from penstock.embedded.browsing import PAGE, Browsing
from penstock.embedded.consumer import Consumer
from penstock.embedded.crew import Crew, Registration
from penstock.embedded.message import StoredMessage
from penstock.embedded.operations import Operations, redrive_options
from penstock.embedded.outgoing import (
    Carried,
    Headers,
    Seconds,
    Sendable,
    Value,
    many_messages,
    one_message,
    parts_of,
    seconds,
)
from penstock.embedded.replies import Replies
from penstock.embedded.runtime import Runtime, named_settings
from penstock.embedded.subscription import Subscription
from penstock.embedded.transaction import Transaction
from penstock.embedded.worker import Job
from penstock.queues.names import DEFAULT_NAMESPACE


def open(
    directory: Path | str,
    *,
    durability: str | None = None,
    auto_create: bool = True,
    namespace: str = DEFAULT_NAMESPACE,
    options: BrokerOptions | None = None,
) -> Database:
    """Open a data directory, made if there is none, for the threads of this process. `durability` is that of queues
    declared without one (default: commit); `auto_create` lets put() and consume() make queues that are not there.
    DirectoryInUse while a process, this one included, has it open."""
    runtime = Runtime(directory, durability, namespace, options or BrokerOptions(auto_create=auto_create))
    runtime.start()
    try:
        runtime.run(runtime.open())
    except BaseException:
        runtime.abandon()
        raise
    return Database(runtime)


class Database(Closing):
    """For any number of threads. Each call returns when what it changed is durable as the queue asks; calls of several
    threads share a sync."""

    def __init__(self, runtime: Runtime) -> None:
        """Use penstock.open()."""
        self._runtime, self._operations = runtime, Operations(runtime)
        self._replies, self._crew = Replies(runtime), Crew(runtime)
        runtime.before_closing.append(self._replies.close)

    @property
    def directory(self) -> Path:
        return self._runtime.directory

    def close(self) -> None:
        """Workers finish what they have in hand, consumers give back what they hold, the directory is let go of.
        Calling it again does nothing."""
        self._crew.stop()
        self._runtime.close()

    # Queues

    def declare(self, queue: str | Mapping[str, object], /, **settings: object) -> QueueHandle:
        """With settings as in a configuration file, such as partitions=4 or retry_policy={"max_retries": 3}. A queue
        that is there with these settings is left as it is; QueueExists if it has others."""
        name, explicit = named_settings(queue, settings)
        return QueueHandle(self, self._runtime.run(self._operations.declare(name, explicit)))

    def queue(self, name: str) -> QueueHandle:
        """NoSuchQueue if there is none."""
        return QueueHandle(self, self.describe(name).name)

    def change(self, queue: str, **settings: object) -> None:
        """InvalidSetting for what cannot change while the queue lives."""
        self._runtime.run(self._operations.change(queue, settings))

    def pause(self, queue: str, group: str | None = None) -> None:
        """Nothing is handed out, to anybody or to that group, until resume()."""
        self._runtime.run(self._operations.pause(queue, group, True))

    def resume(self, queue: str, group: str | None = None) -> None:
        self._runtime.run(self._operations.pause(queue, group, False))

    def purge(self, queue: str) -> int:
        """All messages are gone, for every group; how many there were."""
        return self._runtime.run(self._operations.purge(queue))

    def delete(self, queue: str, group: str | None = None) -> None:
        """The queue with its messages and groups, or one of its groups."""
        self._runtime.run(self._operations.delete(queue, group))

    def describe(self, queue: str) -> QueueDescription:
        return self._runtime.run(self._operations.describe(queue))

    def queues(self) -> list[str]:
        """The names of all queues."""
        return self._runtime.run(self._operations.queues())

    def groups(self, queue: str) -> list[GroupDescription]:
        return self._runtime.run(self._operations.groups(queue))

    # Publishing

    def put(
        self,
        queue: str,
        value: Value,
        key: Value | None = None,
        headers: Headers | None = None,
        *,
        partition: int | None = None,
        **carried: Unpack[Carried],
    ) -> str:
        """The id of the message. Messages of a key, and those of a thread without one, keep their order."""
        return self._operations.inlet(queue).put_and_wait(parts_of(value, key, headers, **carried), partition)

    def put_many(
        self,
        queue: str,
        values: Sendable,
        keys: Sequence[Value] | None = None,
        headers: Headers | Sequence[Headers] | None = None,
        *,
        partition: int | None = None,
        expires_in: Seconds | None = None,
    ) -> list[Placed]:
        """All or none, in one commit; where they went, partition by partition. `values` is a list, Columns, or an Arrow
        table with the columns value and key."""
        columns = many_messages(values, keys, headers, expires_in)
        return self._operations.put_many_and_wait(queue, columns, partition)

    def publish(
        self,
        topic: str,
        value: Value,
        key: Value | None = None,
        headers: Headers | None = None,
        **carried: Unpack[Carried],
    ) -> list[str]:
        """To every queue bound to the topic; their names."""
        columns = one_message(value, key, headers, topic=topic, **carried)
        return self._runtime.run(self._operations.publish(columns, self._runtime.publisher))

    def transaction(self) -> Transaction:
        """`with db.transaction() as tx:` what is put and acknowledged through tx happens as a whole or not at all."""
        return Transaction(self._runtime, self._runtime.publisher)

    def request(
        self,
        queue: str,
        value: Value,
        key: Value | None = None,
        headers: Headers | None = None,
        *,
        timeout: Seconds = 30.0,
    ) -> StoredMessage:
        """Put a message and wait for the reply that its consumer sends with msg.reply(). TimeoutError if none came."""
        runtime = self._runtime
        return runtime.run(self._replies.request(queue, value, key, headers, seconds(timeout), runtime.publisher))

    # Consuming

    def consume(
        self,
        queue: str,
        group: str = "default",
        *,
        filter: str | None = None,
        start: str = "earliest",
        prefetch: int | None = None,
        idle_timeout: float | None = None,
        auto_ack: float | None = None,
    ) -> Consumer:
        """A member of the group, which is made if there is none, to begin at `start` (earliest, latest, an offset, a
        time, or a duration). It holds at most `prefetch` unsettled messages; iteration ends if none came
        for `idle_timeout` seconds. With `auto_ack`, `get()` and iteration acknowledge what they gave before, once every
        so many seconds: a crash brings that much work back."""
        runtime = self._runtime
        return Consumer(
            runtime.run(Subscription.open(runtime, queue, group, filter, start, prefetch)), idle_timeout, auto_ack
        )

    def browse(
        self, queue: str, start: str = "earliest", *, partition: int | None = None, limit: int | None = None
    ) -> Iterator[StoredMessage]:
        """What is stored, oldest first, without consuming it."""
        browsing = Browsing(self._runtime, queue, start, partition)
        left = limit
        while page := self._runtime.run(browsing.page(PAGE if left is None else min(left, PAGE))):
            yield from page
            left = None if left is None else left - len(page)

    def redrive(
        self,
        queue: str,
        *,
        ids: Collection[str] = (),
        group: str | None = None,
        to: str | None = None,
        to_all_groups: bool = False,
        rate: float | None = None,
        limit: int | None = None,
    ) -> Report:
        """Publish the dead letters of a queue again: those with these ids or of that group, else all; to the queue that
        they came from and the group that gave them up, unless told otherwise; `rate` is messages a second."""
        options = redrive_options(ids, group, to_all_groups, rate, limit)
        return self._runtime.run(self._operations.redrive(queue, options, to))

    def replay(self, queue: str, group: str = "default", start: str = "earliest") -> None:
        """The group begins anew at that place: what it had settled comes again."""
        self._runtime.run(self._operations.replay(queue, group, start))

    def commit(self, queue: str, group: str, partition: int, offset: int) -> int:
        """The group is done with all messages of a partition below an offset; how many it had not settled."""
        return self._runtime.run(self._operations.commit(queue, group, partition, offset))

    # Workers

    def worker(
        self, queue: str, group: str = "default", *, concurrency: int = 1, prefetch: int = 100, start: str = "earliest"
    ) -> Registration:
        """Decorate a function of a message, plain or async. While run() runs, it is called for every message: returning
        acknowledges, raising lets the message come again, raising Reject makes it a dead letter. Messages of one key
        are handled one after the other."""
        return self._crew.register(Job(queue, group, concurrency, prefetch, start))

    def run(self) -> None:
        """Run the workers until stop(), SIGINT or SIGTERM: what they have in hand is finished, the rest given back."""
        self._crew.run()

    def stop(self) -> None:
        """Let run() end. For any thread and for signal handlers."""
        self._crew.ask_to_stop()


class QueueHandle:
    """A queue by name: what can be done with it, without saying its name again."""

    def __init__(self, database: Database, name: str) -> None:
        self._database, self.name = database, name

    def put(
        self, value: Value, key: Value | None = None, headers: Headers | None = None, **carried: Unpack[Carried]
    ) -> str:
        return self._database.put(self.name, value, key, headers, **carried)

    def put_many(
        self, values: Sendable, keys: Sequence[Value] | None = None, headers: Headers | Sequence[Headers] | None = None
    ) -> list[Placed]:
        return self._database.put_many(self.name, values, keys, headers)

    def consume(
        self, group: str = "default", *, prefetch: int | None = None, idle_timeout: float | None = None
    ) -> Consumer:
        return self._database.consume(self.name, group, prefetch=prefetch, idle_timeout=idle_timeout)

    def browse(self, start: str = "earliest", *, limit: int | None = None) -> Iterator[StoredMessage]:
        return self._database.browse(self.name, start, limit=limit)

    def describe(self) -> QueueDescription:
        return self._database.describe(self.name)
