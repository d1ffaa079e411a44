"""examples/pipeline: what devices publish over MQTT becomes a table, alerts and dead letters, in both forms."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from pyspark.sql import Row, SparkSession
from tests.support.live_server import LiveServer, live_server

from penstock.client.mqtt.client import MqttClient
from penstock.client.mqtt.options import MqttOptions
from penstock.spark.pipelines.running import PipelineFailed
from penstock.spark.pipelines.starting import pipeline_in

EXAMPLE = Path(__file__).parents[2] / "examples" / "pipeline"
BEGIN = datetime(2026, 11, 15, 10, tzinfo=UTC)
MINUTES = 3


def program(name: str) -> ModuleType:
    """Of the example; by its file, as other packages are called examples too."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


publish, devices = program("publish"), program("devices")


@dataclass(frozen=True)
class Scene:
    server: LiveServer
    data: Path
    out: Path

    @property
    def flight(self) -> str:
        return f"grpc://127.0.0.1:{self.server.ports['flight']}"

    def messages(self, queue: str, count: int) -> list[dict[str, object]]:
        """So many of a queue, as anyone gets them over MQTT."""
        with MqttClient(MqttOptions(port=self.server.ports["mqtt"])) as client:
            client.subscribe(f"$queue/{queue}", qos=1)
            found = [client.receive(60.0) for _ in range(count)]
            for message in found:
                client.ack(message)
            return [json.loads(message.payload) for message in found]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    queues = yaml.safe_load((EXAMPLE / "server.yaml").read_text())["queues"]
    with live_server(tmp_path / "server", ["listeners.flight.port=0", f"queues={json.dumps(queues)}"]) as server:
        with MqttClient(MqttOptions(port=server.ports["mqtt"])) as client:
            for device, text in publish.readings(BEGIN, MINUTES):
                client.publish(f"devices/{device}/reading", text, qos=1)
        yield Scene(server, tmp_path / "server" / "data", tmp_path / "out")


def minutes(spark: SparkSession, out: Path) -> list[Row]:
    return spark.read.parquet(str(out / "per_minute")).orderBy("window_start", "device").collect()


def test_the_declared_example_and_the_script_write_the_same(
    spark: SparkSession, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_DATA", str(scene.data))
    monkeypatch.setenv("PENSTOCK_FLIGHT", scene.flight)
    monkeypatch.setenv("PENSTOCK_OUT", str(scene.out))
    pipeline_in(spark, EXAMPLE / "devices.yaml", once=True).run()
    written = minutes(spark, scene.out)
    assert [(row.device, row.readings) for row in written] == [(name, 12) for _ in range(2) for name in publish.DEVICES]
    [alert] = scene.messages("alerts", 1)
    assert (alert["device"], alert["minute"]) == ("boiler", "2026-11-15T10:01:00.000Z")
    assert sorted(str(letter["rule"]) for letter in scene.messages("rejects", 2)) == ["malformed", "plausible"]

    for query in devices.start(spark, scene.data, scene.flight, scene.out / "script", is_once=True):
        query.awaitTermination()
    assert minutes(spark, scene.out / "script") == written
    assert scene.messages("alerts", 1) == [alert]

    # With a new checkpoint everything would be written again.
    monkeypatch.setenv("PENSTOCK_OUT", str(scene.out / "anew"))
    with pytest.raises(PipelineFailed, match="belongs to query") as caught:
        pipeline_in(spark, EXAMPLE / "devices.yaml", once=True).run()
    assert caught.value.kind == "user"
