"""A broker to be killed, with one stored and one volatile queue that get the same messages, and another volatile queue
that gets what nobody else does. Says how many publishes were acknowledged; runs until it is ended."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from penstock.broker.broker import Broker
from penstock.broker.feed.held import Held
from penstock.broker.publish.publisher import Publisher
from penstock.log.columns import Columns
from penstock.queues.exchange_topics import exchange_topic
from penstock.queues.exchange_types import Destination
from penstock.queues.names import GroupName

DEFAULT, EXCHANGE, MARK = GroupName("default"), "amq.direct", b"nowhere but in memory"
TOPIC, OWN_TOPIC = exchange_topic(EXCHANGE, b"k"), exchange_topic(EXCHANGE, b"own")


async def work(broker: Broker, publisher: Publisher, number: int) -> None:
    """One message for both, and one for the volatile queue alone, which is consumed."""
    declaring, publishing = broker.declaring, broker.publishing
    await publishing.publish(Columns.of([b"%d" % number], topics=[TOPIC]), publisher)
    await publishing.publish(Columns.of([MARK], topics=[OWN_TOPIC]), publisher)
    own = declaring.queue("own")
    competitor = broker.compete(own.groups[DEFAULT])
    for delivery in competitor.receive_now(100):
        await broker.settling.ack(Held(delivery))
    competitor.leave()
    settings = declaring.settings_for(f"brief{number}", {"name": f"brief{number}", "partitions": 1})
    brief = declaring.declare_volatile(settings, (DEFAULT,))
    await broker.exchanges.bind("default", EXCHANGE, Destination("queue", brief.name), "brief")
    declaring.delete_volatile(brief)


async def main(directory: Path) -> None:
    broker = await Broker.open(directory)
    declaring, publisher = broker.declaring, broker.publisher()
    if ("default", "stored") not in declaring.queues:
        await declaring.declare(declaring.settings_for("stored", {"name": "stored", "partitions": 1}), (DEFAULT,))
        await broker.exchanges.bind("default", EXCHANGE, Destination("queue", "stored"), "k")
    for name, key in (("same", "k"), ("own", "own")):
        declaring.declare_volatile(declaring.settings_for(name, {"name": name, "partitions": 1}), (DEFAULT,))
        await broker.exchanges.bind("default", EXCHANGE, Destination("queue", name), key)
    stored = declaring.queue("stored")
    number = sum([unit.data.end - unit.missing(0) for unit in stored.units.values()])
    while True:
        await work(broker, publisher, number)
        number += 1
        print(number, flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
