"""The server as operators see it: readiness, configuration, reload, log level, backup."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar
from unittest import mock

import pytest
import trustme
from tests.support.clock import FakeClock
from tests.support.http_client import HttpClient
from tests.support.loop import run
from tests.support.mqtt_client import MqttClient
from tests.support.receiver import receiving
from tests.support.small_shard import SmallShard
from tests.support.stopped import stop

from penstock.broker.webhooks.events import Event
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.properties import Properties
from penstock.core.errors import Closed, DiskLow, InvalidArgument, InvalidSetting, JournalFailed, LogStopped
from penstock.core.types import Durability
from penstock.gateways.http.ports import Operations
from penstock.log.columns import Columns
from penstock.log.disk import RealDisk
from penstock.log.journal.journal import JournalOptions
from penstock.log.offline.restore import restore_backup
from penstock.log.options import ShardOptions
from penstock.log.shard import Shard
from penstock.server.config import Config, load
from penstock.server.listeners import Listening
from penstock.server.log_lines import LogLines
from penstock.server.operations import ServerOperations
from penstock.server.runtime import Runtime, open_runtime
from penstock.server.server import Server

T = TypeVar("T")
SECRET = "a secret of some length"
SMALL = {"journal_file_size": "1MiB", "journal_size": "4MiB", "disk_reserve": 0}


@pytest.fixture(autouse=True)
def _kept_logging() -> Iterator[None]:
    """Log lines are the whole process's."""
    penstock, root = logging.getLogger("penstock"), logging.getLogger()
    before = [(each, each.level, each.handlers[:], each.propagate) for each in (penstock, root)]
    yield
    for each, level, handlers, propagate in before:
        each.setLevel(level)
        each.handlers[:], each.propagate = handlers, propagate


@dataclass
class Scene:
    place: Path
    operations: ServerOperations
    server: Server
    works: Runtime

    def write(self, **settings: object) -> None:
        write(self.place, **settings)

    async def client(self, name: str = "c", **properties: int) -> MqttClient:
        """Connected."""

        def connect() -> MqttClient:
            client = MqttClient(self.server.addresses["mqtt"], Version.V5, name)
            client.connect(properties=Properties(**properties))  # type: ignore[arg-type]  # numbers, by their names
            return client

        return await beside(connect)

    async def told(self) -> list[tuple[str, int, list[str]]]:
        """What /ready and /health say: status in words, and of HTTP, and problems."""
        client = await beside(partial(HttpClient, self.server.addresses["http"]))
        answers = [await beside(partial(client.get, path)) for path in ("/ready", "/health")]
        await beside(client.close)
        return [(answer.json["status"], answer.status, answer.json.get("problems", [])) for answer in answers]


DEGRADED = "degraded: some logs are damaged or stopped, and a restart does not help"


async def beside(call: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, call)


def write(place: Path, **settings: object) -> None:
    listeners = {"mqtt": {"port": 0}, "mqtt_ws": {"port": 0}, "http": {"port": 0}}
    written = {"data_dir": str(place / "data"), "listeners": listeners, "auth": {"development_mode": True}}
    (place / "penstock.yaml").write_text(json.dumps({**written, "storage": SMALL, **settings}))


@asynccontextmanager
async def scene(place: Path, **settings: object) -> AsyncIterator[Scene]:
    write(place, **settings)

    def read() -> Config:
        return load(place / "penstock.yaml", {}, ())

    config = read()
    operations = ServerOperations(read, LogLines(config.log))
    made: list[Runtime] = []

    async def opening(config: Config) -> Runtime:
        made.append(await open_runtime(config, operations))
        assert operations.problems() == ["the server is starting"]
        return made[0]

    server = await Server.start(config, opening)
    operations.begin(server)
    try:
        yield Scene(place, operations, server, made[0])
    finally:
        operations.end()
        await server.stop()


# Readiness


def test_it_is_ready_when_every_listener_accepts_and_every_shard_commits(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene(tmp_path) as s:
            asked: Operations = s.operations
            assert (asked.problems(), asked.warnings()) == ([], [])
            assert asked.addresses() == s.server.addresses and len(asked.addresses()) == 3
            assert s.works.ports.operations is asked
        assert s.operations.problems() == ["the server is stopping"]

    run(main())


def test_a_listener_without_descriptors_is_a_problem(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene(tmp_path) as s:
            with mock.patch.object(Listening, "is_accepting", False):
                assert s.operations.problems() == [
                    "listener mqtt does not accept connections",
                    "listener mqtt_ws does not accept connections",
                    "listener http does not accept connections",
                ]

    run(main())


@pytest.mark.parametrize("bytes_left", [0, -1])
def test_a_log_that_was_damaged_at_opening_is_a_problem_and_told_by_health(tmp_path: Path, bytes_left: int) -> None:
    async def first() -> None:
        async with scene(tmp_path, queues=[{"name": "q", "partitions": 1}]) as s:
            broker = s.works.broker
            await broker.publishing.put(broker.queue("q"), Columns.of([b"1"]), broker.publisher())

    async def again() -> None:
        async with scene(tmp_path) as s:
            [problem] = s.operations.problems()
            assert "default/q/0" in problem
            assert s.operations.broken_logs() == [problem]
            assert await s.told() == [("not ready", 503, [problem]), (DEGRADED, 200, [problem])]

    run(first())
    [path] = (tmp_path / "data" / "logs").glob("default/q/0@*/*.seg")
    path.write_bytes(path.read_bytes()[:bytes_left])
    run(again())


@pytest.mark.parametrize("bytes_left", [0, -1, None])
def test_a_stopped_log_is_brought_back_by_a_restart_or_a_problem_that_health_tells(
    tmp_path: Path, bytes_left: int | None
) -> None:
    async def first() -> None:
        async with scene(tmp_path, queues=[{"name": "q", "partitions": 1}]) as s:
            broker = s.works.broker
            await broker.publishing.put(broker.queue("q"), Columns.of([b"0"]), broker.publisher())

    async def again() -> None:
        async with scene(tmp_path) as s:
            queue = s.works.broker.queue("q")
            assert queue.units[0].end == 3
            if bytes_left is None:
                assert await s.told() == [("ready", 200, []), ("ok", 200, [])]
                return
            [problem] = s.operations.problems()
            assert "default/q/0" in problem
            assert "stopped" in problem
            assert "not lost" not in problem
            assert await s.told() == [("not ready", 503, [problem]), (DEGRADED, 200, [problem])]
            with pytest.raises(LogStopped):
                await s.works.broker.publishing.put(queue, Columns.of([b"3"]), s.works.broker.publisher())

    run(first())
    options = ShardOptions(JournalOptions(1 << 20, 4 << 20, 64 << 10), disk_reserve_bytes=0)
    shard = SmallShard(RealDisk(tmp_path / "data"), FakeClock(time.time_ns() // 1_000_000), options)
    log = shard.engine.log("default/q/0")
    shard.append(log, b"1", b"2")
    shard.commit()
    stop(shard, log)
    shard.abandon()
    [path] = (tmp_path / "data" / "aside").iterdir()
    if bytes_left is not None:
        path.write_bytes(path.read_bytes()[:bytes_left])
    for _ in range(2):
        run(again())


def test_a_failed_journal_is_a_problem_and_a_low_disk_a_warning(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene(tmp_path) as s:
            with mock.patch.object(Shard, "failure", JournalFailed("no such device")):
                [problem] = s.operations.problems()
            assert "no such device" in problem
            with mock.patch.object(Shard, "disk_low", DiskLow(1, 2)):
                assert s.operations.problems() == []
                [warning] = s.operations.warnings()
            assert "disk_reserve" in warning

    run(main())


# Configuration


def test_the_configuration_is_shown_without_secrets(tmp_path: Path) -> None:
    hook = {"url": "https://user:hunter2@hooks.example/T0/B1", "secret": SECRET, "headers": {"X-Token": "header-value"}}
    queues = [{"name": "q", "dlq_config": {"alert_webhook": "https://hooks.example/alert-path"}}]
    templates = [{"match": "x-*", "settings": {"dlq_config": {"alert_webhook": "https://hooks.example/alert-path"}}}]
    hidden = ("hunter2", "T0", SECRET, "header-value", "alert-path")

    async def main() -> None:
        async with scene(tmp_path, webhooks=[hook], queues=queues, broker={"templates": templates}) as s:
            shown = s.operations.config()
            assert (shown["listeners.mqtt.port"], shown["log.level"]) == (0, "info")
            assert shown["webhooks[0].url"] == "https://hooks.example/…"
            assert (shown["webhooks[0].secret"], shown["webhooks[0].headers"]) == ("(secret)", {"X-Token": "(secret)"})
            assert not [word for word in hidden if word in str(shown)]
            s.write(webhooks=[hook | {"secret": "another secret of that length"}])
            changes = {change.path: change for change in await s.operations.check_reload()}
            assert changes["webhooks[0].secret"].after == "(another secret)"
            assert not [word for word in hidden if word in str(changes)]

    run(main())


# Reload


def test_the_difference_is_shown_before_anything_changes(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene(tmp_path) as s:
            s.write(log={"level": "debug"}, mqtt={"max_packet_size": "1MiB"})
            changes = await s.operations.check_reload()
            assert [(change.path, change.after, change.needs_restart) for change in changes] == [
                ("log.level", "debug", False),
                ("mqtt.max_packet_size", str(1 << 20), True),
            ]
            assert s.operations.config()["log.level"] == "info"
            report = await s.operations.reload()
            assert [change.path for change in report.applied] == ["log.level"]
            assert [change.path for change in report.waiting] == ["mqtt.max_packet_size"]
            assert (s.operations.config()["log.level"], s.operations.log_level) == ("debug", "debug")

    run(main())


def test_a_reload_changes_the_durability_of_sessions_and_retained_messages(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene(tmp_path) as s:
            space = await s.works.ports.retained.space()
            [state] = [log for log in s.works.broker.shard.logs if log.name.endswith("sessions/state")]
            assert {log.settings.durability for log in (state, space.log)} == {Durability.COMMIT}
            s.write(durability="memory")
            await s.operations.reload()
            assert {log.settings.durability for log in (state, space.log)} == {Durability.MEMORY}

    run(main())


def test_reloads_are_counted_and_a_mistake_keeps_the_old(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene(tmp_path) as s:
            metrics = s.operations.reload_metrics
            s.write(rate_limit={"max_messages_per_client": 7}, queues=[{"name": "new"}], logg={})
            for call in (s.operations.check_reload, s.operations.reload):
                with pytest.raises(InvalidSetting, match="did you mean log"):
                    await call()
            assert s.operations.config()["rate_limit.max_messages_per_client"] != 7
            assert (metrics.reloads, metrics.failures, metrics.last_success_ms) == (0, 1, 0)
            assert metrics.last_failure_ms > 0
            bound = {"name": "new", "bindings": [{"exchange": "logs", "key": "k"}]}
            s.write(rate_limit={"max_messages_per_client": 7}, queues=[bound], exchanges=[{"name": "logs"}])
            report = await s.operations.reload()
            assert (metrics.reloads, metrics.failures, metrics.last_success_ms) == (1, 1, report.reloaded_ms)
            assert s.works.broker.queue("new")
            assert [each.key for each in s.works.broker.exchanges.bindings("default", "logs")] == ["k"]

    run(main())


def test_a_queue_that_cannot_be_declared_changes_nothing_else(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene(tmp_path) as s:
            before = s.server.config
            templates = dict(s.works.broker.declaring.templates)
            s.write(
                log={"level": "debug"},
                queues=[{"name": "new"}],
                broker={"templates": [{"match": "a-*", "settings": {"partitions": 2}}]},
                mqtt={"max_session_expiry": "1h"},
            )
            with (
                mock.patch.object(type(s.works.broker), "declare", side_effect=DiskLow(1, 2)),
                pytest.raises(DiskLow),
            ):
                await s.operations.reload()
            assert s.server.config is before
            assert s.works.broker.declaring.templates == templates
            assert s.works.mqtt.options.max_session_expiry_s is None
            assert s.operations.log_level == "info"

    run(main())


def test_the_longest_session_expiry_counts_for_clients_that_come_after_the_reload(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene(tmp_path) as s:
            first = await s.client("first", session_expiry_interval_s=7200)
            assert first.connack.properties.session_expiry_interval_s is None
            s.write(mqtt={"max_session_expiry": "1h", "max_keep_alive": "20s"})
            assert not (await s.operations.reload()).waiting
            second = await s.client("second", session_expiry_interval_s=7200)
            said = second.connack.properties
            assert (said.session_expiry_interval_s, said.server_keep_alive_s) == (3600, 20)
            await beside(first.ping)
            for client in (first, second):
                client.close()

    run(main())


def test_rate_limits_origins_and_the_level_of_log_lines_are_reloaded(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene(tmp_path) as s:
            assert s.works.may_connect("192.0.2.1")
            limits = {"max_connections_per_ip": 1, "connection_burst_size": 1, "connection_window": "1h"}
            sockets = {
                "mqtt": {"port": 0},
                "mqtt_ws": {"port": 0, "allowed_origins": ["https://console.example"]},
                "http": {"port": 0},
            }
            s.write(rate_limit=limits, listeners=sockets, log={"level": "error"})
            report = await s.operations.reload()
            assert not report.waiting
            assert [s.works.may_connect("192.0.2.9") for _ in range(2)] == [True, False]
            assert await _upgraded(s, "https://console.example") == b"HTTP/1.1 101"
            assert await _upgraded(s, "https://other.example") == b"HTTP/1.1 403"
            assert s.operations.log_level == "error"

    run(main())


async def _upgraded(s: Scene, origin: str) -> bytes:
    reader, writer = await asyncio.open_connection(*s.server.addresses["mqtt_ws"])
    lines = (
        "GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Protocol: mqtt\r\nOrigin: {origin}\r\n\r\n"
    )
    writer.write(lines.encode())
    answer = await reader.read(12)
    writer.close()
    return answer


def test_webhooks_are_reloaded(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        async with scene(tmp_path) as s:
            (await s.client("before")).close()
            s.write(webhooks=[{"url": url, "events": ["connected"], "secret": SECRET, "retries": 0}])
            assert not (await s.operations.reload()).waiting
            client = await s.client("after")
            await s.works.ports.webhooks.idle()
            assert not s.works.ports.webhooks.wants(Event.DISCONNECTED)
            client.close()

    with receiving() as receiver:
        run(main(receiver.url))
        assert [request.facts["client_id"] for request in receiver.requests] == ["after"]


def test_a_certificate_that_will_not_do_keeps_the_old_and_says_so_before_the_reload(tmp_path: Path) -> None:
    file = tmp_path / "server.pem"
    trustme.CA().issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(file))
    tls = {"certificate": str(file), "key": str(file)}

    async def main() -> None:
        async with scene(
            tmp_path,
            listeners={"mqtt": {"port": 0}, "mqtt_ws": None, "http": {"port": 0}, "mqtts": {"port": 0, "tls": tls}},
        ) as s:
            await s.operations.reload()
            file.write_text("rubbish")
            for call in (s.operations.check_reload, s.operations.reload):
                with pytest.raises(InvalidSetting, match="tls"):
                    await call()

    run(main())


def test_nothing_is_reloaded_while_the_server_is_not_there(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene(tmp_path) as s:
            pass
        with pytest.raises(Closed, match="stopping"):
            await s.operations.reload()
        with pytest.raises(Closed):
            s.operations.config()
        with pytest.raises(Closed):
            await s.server.reload(s.server.config)

    run(main())


# Log level


def test_a_level_that_was_set_stays_until_the_configuration_says_another(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene(tmp_path) as s:
            s.operations.log_level = "error"
            assert logging.getLogger("penstock").level == logging.ERROR
            await s.operations.reload()
            assert s.operations.log_level == "error"
            s.write(log={"level": "warning"})
            await s.operations.reload()
            assert s.operations.log_level == "warning"
            with pytest.raises(InvalidArgument, match="'loud' is not a log level"):
                s.operations.log_level = "loud"

    run(main())


# Backup


def test_a_backup_is_made_while_the_server_runs_and_can_be_restored(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene(tmp_path, queues=[{"name": "q"}]) as s:
            broker = s.works.broker
            await broker.publishing.put(broker.queue("q"), Columns.of([b"1", b"2"]), broker.publisher())
            report = await s.operations.backup(str(tmp_path / "copy"))
            assert report.files > 0 and report.bytes > 0 and report.logs > 0
            assert s.operations.problems() == []
            await broker.publishing.put(broker.queue("q"), Columns.of([b"3"]), broker.publisher())

    run(main())
    restored = restore_backup(tmp_path / "copy", tmp_path / "restored", lambda path, done, total: None)
    assert restored.records >= 2


@pytest.mark.parametrize(
    "target", ["", "relative/copy", "{place}/penstock.yaml/copy", "a\0b", "{place}/data/inside", "{place}"]
)
def test_a_place_that_will_not_do_is_refused(tmp_path: Path, target: str) -> None:
    async def main() -> None:
        async with scene(tmp_path) as s:
            with pytest.raises(InvalidArgument):
                await s.operations.backup(target.format(place=tmp_path))
            assert s.operations.problems() == []

    run(main())


def test_one_backup_is_made_at_a_time(tmp_path: Path) -> None:
    async def main() -> None:
        async with scene(tmp_path) as s:
            found = await asyncio.gather(
                *(s.operations.backup(str(tmp_path / name)) for name in ("a", "b")), return_exceptions=True
            )
            assert [isinstance(each, InvalidArgument) for each in found] == [False, True]

    run(main())
