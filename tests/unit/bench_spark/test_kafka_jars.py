"""Kafka, which some benchmarks are held against, is fetched by hand and missed aloud."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.spark.kafka import where_installed
from scripts.install_peers import install_kafka, kafka_jars


def test_a_machine_without_kafka_measures_the_rest_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with where_installed(tmp_path) as kafka:
        assert kafka is None
    assert "not measured: Kafka is not installed, run python scripts/install_peers.py kafka" in capsys.readouterr().out


def test_jars_count_when_all_of_them_have_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    fetched: list[str] = []

    def fetch(command: list[str], *, check: bool, cwd: Path) -> None:
        [coming] = [Path(word.partition("=")[2]) for word in command if word.startswith("-DoutputDirectory=")]
        fetched.append((cwd / "pom.xml").read_text())
        (coming / "kafka.jar").touch()
        assert kafka_jars("spark") == []
        if len(fetched) == 1:
            raise OSError("the network is gone")

    monkeypatch.setattr("scripts.install_peers.subprocess.run", fetch)
    with pytest.raises(OSError, match="gone"):
        install_kafka("spark")
    assert kafka_jars("spark") == []
    install_kafka("spark")
    assert [jar.name for jar in kafka_jars("spark")] == ["kafka.jar"]
    assert "<artifactId>spark-sql-kafka-0-10_2.13</artifactId>" in fetched[0]
