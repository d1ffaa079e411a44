"""A server with all that belongs to it on free ports of loopback, in a thread: tests talk to it over HTTP and MQTT, and
reach into its loop where they must."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

from tests.support.http_client import Address, HttpClient, RawClient
from tests.support.loop_thread import LoopThread
from tests.support.mqtt_client import MqttClient

from penstock.broker.broker import Broker
from penstock.broker.queues.queue import Queue
from penstock.codecs.mqtt.kinds import Version
from penstock.codecs.mqtt.packets import Will
from penstock.codecs.mqtt.properties import NO_PROPERTIES, Properties
from penstock.codecs.mqtt.reasons import ReasonCode
from penstock.server.config import Config, load
from penstock.server.log_lines import LogLines
from penstock.server.operations import ServerOperations
from penstock.server.runtime import Runtime, open_runtime
from penstock.server.server import Server

_SMALL = {"journal_file_size": "4MiB", "journal_size": "16MiB", "disk_reserve": 0}
_LISTENERS = {"mqtt": {"port": 0}, "mqtt_ws": {"port": 0}, "http": {"port": 0}}
ROLES = ("producer", "consumer", "read-only", "monitor", "admin")


class RunningServer(LoopThread):
    """`works` and what is below it belong to the loop: use `call` and `wait`. In development mode unless the settings
    say otherwise."""

    server: Server
    works: Runtime
    operations: ServerOperations

    def __init__(self, place: Path, settings: Mapping[str, object]) -> None:
        super().__init__()
        self.place = place
        place.mkdir(exist_ok=True)
        self._settings: dict[str, object] = {
            "auth": {"development_mode": True},
            "log": {"level": "warning"},
            **settings,
        }
        self._clients: list[HttpClient | RawClient | MqttClient] = []
        try:
            self.wait(self._start())
        except BaseException:
            super().close()
            raise

    async def _start(self) -> None:
        self.write()
        config = self._read()
        operations = self.operations = ServerOperations(self._read, LogLines(config.log))

        async def opening(config: Config) -> Runtime:
            self.works = await open_runtime(config, operations)
            return self.works

        self.server = await Server.start(config, opening)
        operations.begin(self.server)

    def write(self, **settings: object) -> None:
        """The configuration that a reload finds: that of the start, with these on top."""
        data = {"data_dir": str(self.place / "data"), "storage": _SMALL, **self._settings, **settings}
        listeners = cast("dict[str, object]", data.get("listeners", {}))
        (self.place / "penstock.yaml").write_text(json.dumps({**data, "listeners": {**_LISTENERS, **listeners}}))

    def _read(self) -> Config:
        return load(self.place / "penstock.yaml", {}, ())

    async def _stop(self) -> None:
        self.operations.end()
        await self.server.stop()

    def stop(self) -> None:
        """As a signal would. close() is still to be called."""
        self.wait(self._stop())

    def restart(self) -> None:
        """The same data, as another process would find it. Clients of before are cut off."""
        self._close_clients()
        self.wait(self._stop())
        self.wait(self._start())

    def close(self) -> None:
        self._close_clients()
        try:
            self.wait(self._stop())
        finally:
            super().close()

    def _close_clients(self) -> None:
        for client in self._clients:
            with suppress(OSError):
                client.close()
        self._clients.clear()

    # Clients

    @property
    def address(self) -> Address:
        return self.server.addresses["http"]

    def http(self, headers: Mapping[str, str] | None = None) -> HttpClient:
        client = HttpClient(self.address, headers)
        self._clients.append(client)
        return client

    def raw(self) -> RawClient:
        client = RawClient(self.address)
        self._clients.append(client)
        return client

    def mqtt(
        self, name: str = "c", *, will: Will | None = None, expiry_s: int | None = None, **credentials: str
    ) -> MqttClient:
        """Connected. `expiry_s`: with a session that stays as long."""
        client = MqttClient(self.server.addresses["mqtt"], Version.V5, name)
        self._clients.append(client)
        user, password = credentials.get("username"), credentials.get("password")
        answer = client.connect(
            clean=expiry_s is None,
            will=will,
            username=user,
            password=None if password is None else password.encode(),
            properties=Properties(session_expiry_interval_s=expiry_s),
        )
        assert answer.reason is ReasonCode.SUCCESS, answer
        return client

    def consumer(self, queue: str = "q", properties: Properties = NO_PROPERTIES) -> MqttClient:
        """Over MQTT."""
        client = self.mqtt(f"consumer of {queue}")
        [reason] = client.subscribe(f"$queue/{queue}", qos=1, properties=properties)
        assert not reason.is_refusal, reason
        return client

    # The broker

    @property
    def broker(self) -> Broker:
        return self.works.broker

    def declare(self, name: str = "q", **settings: object) -> Queue:
        """With one partition unless they say otherwise."""
        return self.wait(self.broker.declare({"name": name, "partitions": 1} | settings))

    def forget(self) -> None:
        """Clients and queues of a test."""
        self._close_clients()
        for queue in self.call(lambda: list(self.broker.queues)):
            self.wait(self.broker.declaring.delete(queue))

    def key(self, *roles: str, expires_ms: int | None = None, namespace: str = "default") -> str:
        """A new API key."""
        users = self.works.ports.access.users
        return self.wait(users.add_key(list(roles), namespace, "of a test", expires_ms=expires_ms))[1]

    def with_roles(self, *roles: str) -> HttpClient:
        """A client with a key of its own."""
        return self.http({"X-API-Key": self.key(*roles)})


@contextmanager
def running_server(place: Path, **settings: object) -> Iterator[RunningServer]:
    with _kept_logging():
        made = RunningServer(place, settings)
        try:
            yield made
        finally:
            made.close()


@contextmanager
def _kept_logging() -> Iterator[None]:
    """Log lines are the whole process's."""
    penstock, root = logging.getLogger("penstock"), logging.getLogger()
    before = [(each, each.level, each.handlers[:], each.propagate) for each in (penstock, root)]
    try:
        yield
    finally:
        for each, level, handlers, propagate in before:
            each.setLevel(level)
            each.handlers[:], each.propagate = handlers, propagate
