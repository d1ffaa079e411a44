"""Kafka beside Penstock: a broker of one node, the ends of a stream, and Spark's own connector, where
`scripts/install_peers.py kafka` has put them."""

from __future__ import annotations

import os
import subprocess
from array import array
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
from scripts.install_peers import kafka_jars

from bench.mqtt.servers import HOST, Absent, Server, accepts, free_port, program
from bench.process import BenchmarkFailed

_ENDS = Path(__file__).with_name("KafkaEnds.java")
_CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"
_ENDS_S = 60
# What the launcher of Spark puts behind its own jars.
_SPARK_JARS = "SPARK_DIST_CLASSPATH"
# Of topics: as Kafka is by default, which leaves writing to the system, and synced as a queue of Penstock is.
FLUSHES: Mapping[str, str] = {"Kafka, no fsync": "-", "Kafka, flush.messages=1": "1"}


@dataclass(frozen=True, slots=True)
class Kafka:
    address: str
    classpath: str

    def create(self, topic: str, partitions: int, flush_messages: str) -> None:
        self._run("create", topic, str(partitions), flush_messages)

    def end(self, kind: str, *words: str) -> subprocess.Popen[bytes]:
        """A process that produces or consumes until stop()."""
        return subprocess.Popen(self._command(kind, *words), stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def _run(self, *words: str) -> None:
        done = subprocess.run(self._command(*words), stdin=subprocess.DEVNULL, capture_output=True, timeout=_ENDS_S)
        if done.returncode:
            raise BenchmarkFailed(f"Kafka: {done.stderr.decode(errors='replace')[-500:]}")

    def _command(self, kind: str, *words: str) -> list[str]:
        return [program("java"), "-Xmx256m", "-cp", self.classpath, str(_ENDS), kind, self.address, *words]


def stop(end: subprocess.Popen[bytes]) -> None:
    """It looks whether anything was said to it."""
    end.communicate(b"\n", timeout=_ENDS_S)
    if end.returncode:
        raise BenchmarkFailed(f"an end of the stream of Kafka ended with {end.returncode}")


def taken(file: Path) -> list[tuple[int, int]]:
    """When each message was due, and when it came."""
    numbers = array("q", file.read_bytes())
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def connector_on_classpath() -> None:
    """For the JVM of Spark that is started next. Absent if it is not installed."""
    found = [os.environ.get(_SPARK_JARS, ""), *map(str, _jars("spark"))]
    os.environ[_SPARK_JARS] = os.pathsep.join(each for each in found if each)


@contextmanager
def where_installed(place: Path) -> Iterator[Kafka | None]:
    """To be entered before the JVM of Spark is started. None, and said aloud, where it is not installed."""
    try:
        connector_on_classpath()
        _jars("broker")
    except Absent as absence:
        click.secho(f"  not measured: {absence}, run python scripts/install_peers.py kafka", bold=True)
        yield None
        return
    with broker(place) as kafka:
        yield kafka


@contextmanager
def broker(place: Path) -> Iterator[Kafka]:
    """One node with its defaults, but for the copies that it cannot have. Absent if it is not installed."""
    java, classpath = program("java"), os.pathsep.join(map(str, _jars("broker")))
    place.mkdir(exist_ok=True)
    port, settings = free_port(), place / "server.properties"
    settings.write_text(_settings(port, free_port(), place / "logs"))
    tool = [java, "-cp", classpath, "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(settings)]
    subprocess.run(tool, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    server = Server("Kafka", [java, "-Xmx1g", "-Xms1g", "-cp", classpath, "kafka.Kafka", str(settings)], place)
    try:
        server.wait(accepts(port))
        yield Kafka(f"{HOST}:{port}", classpath)
    finally:
        server.stop()


def _jars(kind: str) -> list[Path]:
    if not (found := kafka_jars(kind)):
        raise Absent("Kafka is not installed")
    return found


def _settings(port: int, controller_port: int, logs: Path) -> str:
    return "\n".join(
        [
            "process.roles=broker,controller",
            "node.id=1",
            f"listeners=PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
            f"advertised.listeners=PLAINTEXT://{HOST}:{port}",
            "controller.listener.names=CONTROLLER",
            f"controller.quorum.voters=1@{HOST}:{controller_port}",
            f"log.dirs={logs}",
            "offsets.topic.replication.factor=1",
            "transaction.state.log.replication.factor=1",
            "transaction.state.log.min.isr=1",
            "",
        ]
    )
