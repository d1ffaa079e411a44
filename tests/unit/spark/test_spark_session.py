"""What a session is told before there is one."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession
from scripts.local_files_jar import classes

from penstock.spark import session

_FILES = "spark.hadoop.fs.file.impl"


@pytest.fixture
def no_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever other tests of this process have started."""
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(session, "java_home", lambda: Path("/nowhere"))
    for name in ("JAVA_HOME", "PYTHONPATH", "SPARK_DIST_CLASSPATH"):
        monkeypatch.setenv(name, os.environ.get(name, ""))


def _settings(master: str, *, local_checkpoints: bool) -> dict[str, str]:
    return dict(session.session_builder(master, local_checkpoints=local_checkpoints)._options)


@pytest.mark.usefixtures("no_jvm")
def test_files_of_this_machine_are_written_by_our_class_where_it_is_there() -> None:
    SparkSession.builder._options.clear()
    assert _FILES not in _settings("local[2]", local_checkpoints=False)
    assert _FILES not in _settings("spark://host:7077", local_checkpoints=True)
    for _ in range(2):
        assert _settings("local[2]", local_checkpoints=True)[_FILES] == "penstock.spark.LocalFiles"
    jars = [each for each in os.environ["SPARK_DIST_CLASSPATH"].split(os.pathsep) if each.endswith("local_files.jar")]
    assert len(jars) == 1 and Path(jars[0]).exists()
    SparkSession.builder._options.clear()


@pytest.mark.skipif(shutil.which("javac") is None, reason="there is no JDK")
def test_the_jar_is_what_its_source_says() -> None:
    release = subprocess.run(["javac", "-version"], capture_output=True, text=True, check=True).stdout
    if not release.startswith("javac 17."):
        pytest.skip(f"{release.strip()} may write other bytes than 17")
    with zipfile.ZipFile(session._LOCAL_FILES_JAR) as jar:
        assert {name: jar.read(name) for name in jar.namelist()} == classes()
