from __future__ import annotations

import asyncio
from pathlib import Path

from tests.support.broker import Stage, retries, stage
from tests.support.metrics import of, scrape, sources_of

from penstock.broker.queues.queue import Queue
from penstock.broker.queues.start import LATEST
from penstock.telemetry.breather import Breather
from penstock.telemetry.exposition import exposition
from penstock.telemetry.families import FAMILIES
from penstock.telemetry.sources import MetricOptions, MetricSources


async def consume(made: Stage, queue: Queue, *, messages: int, acked: int, failed: int = 0, rejected: int = 0) -> None:
    """So many are published, and some of them settled; of one partition."""
    consumer = await made.consumer(queue)
    await made.put(queue, *[b"m"] * messages)
    taken = await made.receive(consumer)
    await made.ack(consumer, *taken[:acked])
    if failed:
        await made.fail(consumer, *taken[acked : acked + failed])
    if rejected:
        await made.reject(consumer, *taken[acked + failed : acked + failed + rejected])


def test_a_queue_is_counted_from_publish_to_dead_letter(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path) as made, sources_of(made) as sources:
            queue = await made.queue("shop/orders", retry_policy=retries(3))
            await consume(made, queue, messages=10, acked=5, failed=2, rejected=1)
            found = await scrape(sources)
            mine = {"namespace": "default", "queue": "shop/orders"}
            assert of(found, "penstock_broker_messages_published_total", **mine) == 10
            assert of(found, "penstock_broker_messages_delivered_total", **mine) == 10
            assert of(found, "penstock_broker_messages_acked_total", **mine) == 5
            assert of(found, "penstock_broker_messages_failed_total", **mine) == 2
            assert of(found, "penstock_broker_messages_dead_lettered_total", reason="rejected", **mine) == 1
            assert of(found, "penstock_queue_depth", **mine) == 4
            assert of(found, "penstock_queue_log_end_offset", **mine) == 10
            assert of(found, "penstock_broker_publish_latency_seconds_count") == 10
            assert of(found, "penstock_broker_delivery_latency_seconds_count", **mine) == 10

    asyncio.run(run())


def test_dashboards_of_mqtt_queues_find_their_names(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path) as made, sources_of(made) as sources:
            queue = await made.queue("tasks/image", retry_policy=retries(3))
            await consume(made, queue, messages=10, acked=5, failed=2, rejected=1)
            found = await scrape(sources)
            mine = {"queue": "$queue/tasks/image"}
            assert of(found, "mqtt_queue_depth", **mine) == 4
            assert of(found, "mqtt_queue_enqueue_total", **mine) == 10
            assert of(found, "mqtt_queue_dequeue_total", **mine) == 10
            assert of(found, "mqtt_queue_ack_total", **mine) == 5
            assert of(found, "mqtt_queue_nack_total", **mine) == 2
            assert of(found, "mqtt_queue_dlq_total", reason="rejected", **mine) == 1
            assert of(found, "mqtt_queue_dlq_total", reason="max_retries", **mine) == 0
            assert of(found, "mqtt_queue_active_consumers", group="g", **mine) == 1
            assert of(found, "mqtt_queue_delivery_latency_seconds", quantile="0.99", **mine) >= 0

    asyncio.run(run())


def test_a_group_says_how_far_behind_it_is(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path) as made, sources_of(made) as sources:
            queue = await made.queue("orders")
            await made.put(queue, *[b"m"] * 4)
            await made.advance(60)
            await made.put(queue, *[b"m"] * 6)
            consumer = await made.consumer(queue, prefetch=7)
            taken = await made.receive(consumer)
            mine = {"namespace": "default", "queue": "orders", "group": "g"}
            found = await scrape(sources)
            assert of(found, "penstock_consumer_group_lag", **mine) == 10
            assert of(found, "penstock_consumer_group_lag_seconds", **mine) == 60
            assert of(found, "penstock_consumer_group_in_flight", **mine) == 7
            await made.ack(consumer, *taken[:4])
            found = await scrape(sources)
            assert of(found, "penstock_consumer_group_lag", **mine) == 6
            assert of(found, "penstock_consumer_group_lag_seconds", **mine) == 0
            assert of(found, "penstock_consumer_group_committed_offset", **mine) == 4
            assert of(found, "penstock_consumer_group_members", **mine) == 1
            assert of(found, "penstock_consumer_group_suspended_members", **mine) == 0

    asyncio.run(run())


def test_the_oldest_message_is_found_in_files_too(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path) as made:
            queue = await made.queue("orders")
            await made.put(queue, b"old")
            await made.consumer(queue)
            await made.restart()
            made.clock.advance(3600)
            async with sources_of(made) as sources:
                found = await scrape(sources)
            age_s = of(found, "penstock_consumer_group_lag_seconds", namespace="default", queue="orders", group="g")
            assert age_s == 3600

    asyncio.run(run())


def test_a_group_that_begins_at_the_end_is_not_behind(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path) as made, sources_of(made) as sources:
            queue = await made.queue("orders")
            await made.put(queue, b"m")
            await made.advance(60)
            await made.broker.group(queue, "late", LATEST)
            found = await scrape(sources)
            mine = {"namespace": "default", "queue": "orders", "group": "late"}
            assert of(found, "penstock_consumer_group_lag_seconds", **mine) == 0
            assert of(found, "penstock_consumer_group_lag", **mine) == 0
            assert of(found, "penstock_consumer_group_committed_offset", **mine) == 1

    asyncio.run(run())


def test_a_scrape_that_is_given_up_changes_no_later_one(tmp_path: Path) -> None:
    async def run() -> None:
        options = MetricOptions(max_queues=1)
        async with stage(tmp_path) as made, sources_of(made) as sources:
            queues = [await made.queue(f"q{number}") for number in range(4)]
            for queue in queues:
                await made.put(queue, b"m")
            await scrape(sources, options)
            await made.broker.declaring.delete(queues[2])
            for turns in range(1, 6):
                scraping = asyncio.create_task(_collected(sources, options))
                for _ in range(turns):
                    await asyncio.sleep(0)
                scraping.cancel()
                await asyncio.wait([scraping])
            found = await scrape(sources, options)
            others = {"namespace": "(others)", "queue": "(others)"}
            assert of(found, "penstock_broker_messages_published_total", **others) == 3

    asyncio.run(run())


async def _collected(sources: MetricSources, options: MetricOptions) -> None:
    """With a turn for others after every step."""
    breather = Breather(slice_s=0.0)
    await sources.memory.slots.divide(sources.broker.queues, options.max_queues, breather)


def test_those_who_scrape_together_all_get_a_page(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path) as made, sources_of(made) as sources:
            await made.put(await made.queue("orders"), b"m")
            pages = await asyncio.gather(*[scrape(sources) for _ in range(5)])
            assert {of(page, "penstock_broker_queues") for page in pages} == {1}

    asyncio.run(run())


def test_totals_of_a_queue_outlive_its_groups(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path) as made, sources_of(made) as sources:
            queue = await made.queue("orders")
            await consume(made, queue, messages=10, acked=10)
            await made.broker.declaring.delete_group(made.group_of("orders"))
            found = await scrape(sources)
            assert of(found, "mqtt_queue_ack_total", queue="$queue/orders") == 10

    asyncio.run(run())


def test_queues_beyond_the_limit_are_summed_up(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path) as made, sources_of(made) as sources:
            for number in range(5):
                await made.put(await made.queue(f"q{number}"), *[b"m"] * (number + 1))
            found = await scrape(sources, MetricOptions(max_queues=2))
            published = {
                dict(labels)["queue"]: value
                for (name, labels), value in found.items()
                if name == "penstock_broker_messages_published_total"
            }
            assert published == {"q0": 1, "q1": 2, "(others)": 3 + 4 + 5}
            assert of(found, "penstock_broker_queues") == 5

    asyncio.run(run())


def test_the_sum_of_the_others_never_goes_back(tmp_path: Path) -> None:
    async def run() -> None:
        options = MetricOptions(max_queues=1)
        async with stage(tmp_path) as made, sources_of(made) as sources:
            queues = [await made.queue(f"q{number}") for number in range(3)]
            for queue in queues:
                await consume(made, queue, messages=1, acked=1)
            others = {"namespace": "(others)", "queue": "(others)"}
            assert of(await scrape(sources, options), "penstock_broker_messages_acked_total", **others) == 2
            await made.broker.declaring.delete(queues[1])
            await made.broker.declaring.delete(queues[0])
            found = await scrape(sources, options)
            assert of(found, "penstock_broker_messages_acked_total", **others) == 2
            assert of(found, "penstock_broker_messages_published_total", **others) == 2
            await made.put(await made.queue("new"), b"m")
            found = await scrape(sources, options)
            assert of(found, "penstock_broker_messages_published_total", namespace="default", queue="new") == 1
            assert of(found, "penstock_broker_messages_published_total", **others) == 2

    asyncio.run(run())


def test_groups_beyond_the_limit_are_summed_up_in_their_queue(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path) as made, sources_of(made) as sources:
            queue = await made.queue("orders")
            await made.put(queue, b"m", b"m")
            for name in ("a", "b", "c"):
                await made.consumer(queue, name)
            found = await scrape(sources, MetricOptions(max_groups=1))
            mine = {"namespace": "default", "queue": "orders"}
            assert of(found, "penstock_consumer_group_lag", group="a", **mine) == 2
            assert of(found, "penstock_consumer_group_lag", group="(others)", **mine) == 4

    asyncio.run(run())


def test_partitions_have_labels_where_that_is_wanted(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path) as made, sources_of(made) as sources:
            queue = await made.queue("orders", partitions=3)
            for partition in range(3):
                await made.put(queue, *[b"m"] * (partition + 1), partition=partition)
            await made.consumer(queue)
            mine = {"namespace": "default", "queue": "orders"}
            found = await scrape(sources, MetricOptions(partitions=True))
            assert of(found, "penstock_queue_log_end_offset", partition="2", **mine) == 3
            assert of(found, "penstock_consumer_group_lag", group="g", partition="1", **mine) == 2
            found = await scrape(sources, MetricOptions(partitions=True, max_partitions=1))
            assert of(found, "penstock_queue_log_end_offset", partition="0", **mine) == 1
            assert of(found, "penstock_queue_log_end_offset", partition="(others)", **mine) == 5
            found = await scrape(sources)
            assert of(found, "penstock_queue_log_end_offset", **mine) == 6

    asyncio.run(run())


def test_queues_of_one_name_in_two_namespaces_stay_apart(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path) as made, sources_of(made) as sources:
            await made.put(await made.queue("orders"), b"m")
            await made.put(await made.queue("orders", namespace="tenant"), b"m", b"m")
            found = await scrape(sources)
            assert of(found, "mqtt_queue_enqueue_total", queue="$queue/orders") == 1
            assert of(found, "mqtt_queue_enqueue_total", queue="$queue/orders", namespace="tenant") == 2

    asyncio.run(run())


def test_storage_is_counted_where_it_happens(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path) as made, sources_of(made) as sources:
            await made.put(await made.queue("orders"), b"m" * 1000)
            await made.broker.shard.checkpoint()
            found = await scrape(sources)
            assert of(found, "penstock_storage_bytes_written_total", file="journal") > 1000
            assert of(found, "penstock_storage_bytes_written_total", file="segment") > 1000
            syncs = of(found, "penstock_storage_syncs_total", file="journal")
            assert of(found, "penstock_storage_journal_sync_seconds_count") == syncs > 0
            assert (
                of(found, "penstock_storage_commit_group_frames_sum") >= of(found, "penstock_storage_frames_total") > 0
            )
            assert of(found, "penstock_storage_checkpoints_total") >= 1
            assert of(found, "penstock_storage_free_bytes") > 0

    asyncio.run(run())


def test_every_family_is_on_the_page_of_a_broker_at_work(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path) as made, sources_of(made) as sources:
            queue = await made.queue("orders")
            await made.put(queue, b"m")
            await made.consumer(queue)
            text = (await exposition(sources, MetricOptions())).decode()
        types = [line.split()[2:] for line in text.splitlines() if line.startswith("# TYPE")]
        assert types == [[family.name, family.kind.value] for family in FAMILIES]

    asyncio.run(run())


def test_the_labels_of_each_family_are_those_it_is_said_to_have(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path) as made, sources_of(made) as sources:
            for namespace in ("default", "tenant"):
                queue = await made.queue("orders", namespace=namespace)
                await made.put(queue, b"m")
                await made.consumer(queue)
            found = await scrape(sources, MetricOptions(partitions=True))
        families = {family.name: family for family in FAMILIES}
        for name, labels in found:
            base = name if name in families else name.rpartition("_")[0]
            allowed = {label.strip("[]") for label in families[base].labels}
            needed = {label for label in families[base].labels if not label.startswith("[")}
            have = {label for label, _ in labels} - {"le"}
            assert have <= allowed, name
            assert needed - have <= {"quantile"}, name

    asyncio.run(run())
