"""Any text is a queue's name: made, addressed, stored and found again."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.broker import stage
from tests.support.loop import run

from penstock.core.errors import InvalidArgument, NoSuchQueue, QueueReserved
from penstock.core.queue_paths import queue_topic

WEIRD = (
    *("x#y", "a//b", "$weird", "reply/", "orders.dlq", "dlq/orders", ".", "/", "../../etc", "50%2F", "$dlq/"),
    *("ä" * 127, "#" * 255, "a\\b:c*?", "$queue/orders", "a/$ack", "amqp.x"),
)


def test_they_get_what_is_published_to_their_topics_and_outlive_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path / "data") as s:
            for number, name in enumerate(WEIRD):
                settings = s.broker.declaring.settings_for(name, {"partitions": 1})
                queue = await s.broker.declare(settings)
                [published] = await s.publish(queue_topic(name).encode() + b"/key", b"%d" % number)
                assert published.queue is queue
                assert queue.routing_key(queue_topic(name).encode() + b"/key") == b"key"
            await s.restart()
            assert {queue.name for queue in s.broker.queues} == set(WEIRD)
            for number, name in enumerate(WEIRD):
                queue = s.broker.queue(name)
                assert queue.name == name
                consumer = await s.consumer(queue)
                [message] = await s.receive(consumer)
                assert message.value == b"%d" % number
                await s.reject(consumer, message)
            letters = {queue.name for queue in s.broker.queues} - set(WEIRD)
            assert letters == {f"$dlq/{name}" for name in WEIRD}

    run(main())
    assert {path.name for path in tmp_path.iterdir()} == {"data"}


def test_a_name_is_another_way_to_write_dead_letters_until_a_queue_is_called_so(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            letters = await s.queue("$dlq/orders")
            declaring = s.broker.declaring
            assert declaring.queue("orders.dlq") is letters
            assert (await s.publish(b"$queue/orders.dlq/k", b"1"))[0].queue is letters
            with pytest.raises(NoSuchQueue):
                declaring.called("orders.dlq")
            mine = await s.queue("orders.dlq")
            assert declaring.queue("orders.dlq") is mine
            assert declaring.queue("$queue/orders.dlq") is mine
            assert declaring.queue("dlq/orders") is letters
            assert (await s.publish(b"$queue/orders.dlq/k", b"2"))[0].queue is mine
            assert (await s.publish(b"$dlq/orders", b"3"))[0].queue is letters
            found, key_filter = await declaring.subscribed("$queue/orders.dlq/k/#")
            assert (found, key_filter) == (mine, "k/#")
            await declaring.delete(mine)
            assert declaring.queue("orders.dlq") is letters
            found, key_filter = await declaring.subscribed("$queue/orders.dlq/k/#")
            assert (found, key_filter) == (letters, "k/#")

    run(main())


def test_what_begins_with_amq_is_declared_by_nobody_but_the_broker(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as s:
            with pytest.raises(QueueReserved):
                await s.queue("amq.mine")
            with pytest.raises(QueueReserved):
                await s.publish(b"$queue/amq.mine", b"1")
            settings = s.broker.declaring.settings_for("amq.gen-1", {}, is_server_named=True)
            queue = await s.broker.declare(settings)
            assert (await s.publish(b"$queue/amq.gen-1", b"1"))[0].queue is queue
            with pytest.raises(InvalidArgument):
                await s.publish(b"$queue/a%2Fb", b"1")
            assert len(s.broker.queues) == 1

    run(main())
