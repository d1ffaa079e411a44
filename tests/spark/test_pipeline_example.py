"""examples/pipeline: what devices publish over MQTT becomes a table, alerts and dead letters, in both forms."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from examples.pipeline import devices, publish
from pyspark.sql import SparkSession
from tests.support.live_server import LiveServer, live_server

from penstock.client.mqtt.client import MqttClient
from penstock.client.mqtt.options import MqttOptions
from penstock.spark.pipelines.runner import PipelineFailed
from penstock.spark.pipelines.starting import pipeline_in

EXAMPLE = Path(__file__).parents[2] / "examples" / "pipeline"
BEGIN = datetime(2026, 11, 15, 10, tzinfo=UTC)
MINUTES = 3


class Listener:
    """Who consumes a queue over MQTT, from when the scene begins."""

    def __init__(self, port: int, queue: str) -> None:
        self._client = MqttClient(MqttOptions(port=port))
        self._client.connect()
        self._client.subscribe(f"$queue/{queue}", qos=1)

    def messages(self, count: int) -> list[dict[str, object]]:
        found = [self._client.receive(60.0) for _ in range(count)]
        for message in found:
            self._client.ack(message)
        return [json.loads(message.payload) for message in found]

    def close(self) -> None:
        self._client.close()


@dataclass(frozen=True)
class Scene:
    server: LiveServer
    data: Path
    out: Path
    alerts: Listener
    rejects: Listener

    @property
    def flight(self) -> str:
        return f"grpc://127.0.0.1:{self.server.ports['flight']}"


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    queues = yaml.safe_load((EXAMPLE / "server.yaml").read_text())["queues"]
    with live_server(tmp_path / "server", ["listeners.flight.port=0", f"queues={json.dumps(queues)}"]) as server:
        port = server.ports["mqtt"]
        with MqttClient(MqttOptions(port=port)) as client:
            for device, text in publish.readings(BEGIN, MINUTES):
                client.publish(f"devices/{device}/reading", text, qos=1)
        with closing(Listener(port, "alerts")) as alerts, closing(Listener(port, "rejects")) as rejects:
            yield Scene(server, tmp_path / "server" / "data", tmp_path / "out", alerts, rejects)


def check_what_was_written(spark: SparkSession, scene: Scene) -> None:
    rows = spark.read.parquet(str(scene.out / "per_minute")).orderBy("window_start", "device").collect()
    assert [(row.device, row.readings) for row in rows] == [(name, 12) for _ in range(2) for name in publish.DEVICES]
    [alert] = scene.alerts.messages(1)
    assert (alert["device"], alert["minute"]) == ("boiler", "2026-11-15T10:01:00.000Z")
    assert sorted(str(letter["rule"]) for letter in scene.rejects.messages(2)) == ["malformed", "plausible"]


def test_the_declared_example_writes_table_alerts_and_dead_letters_once(
    spark: SparkSession, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_DATA", str(scene.data))
    monkeypatch.setenv("PENSTOCK_FLIGHT", scene.flight)
    monkeypatch.setenv("PENSTOCK_OUT", str(scene.out))
    pipeline_in(spark, EXAMPLE / "devices.yaml", once=True).run()
    check_what_was_written(spark, scene)
    # With a new checkpoint everything would be written again.
    monkeypatch.setenv("PENSTOCK_OUT", str(scene.out / "anew"))
    with pytest.raises(PipelineFailed, match="belongs to query") as caught:
        pipeline_in(spark, EXAMPLE / "devices.yaml", once=True).run()
    assert caught.value.kind == "user"


def test_the_script_writes_the_same(spark: SparkSession, scene: Scene) -> None:
    devices.run_once(devices.writers(spark, scene.data, scene.flight, scene.out))
    check_what_was_written(spark, scene)
