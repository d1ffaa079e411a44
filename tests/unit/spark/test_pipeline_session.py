"""The session of a pipeline, before there is one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.pipelines import GOOD, loaded

from penstock.spark.pipelines.session import has_local_checkpoints


@pytest.mark.parametrize(
    ("added", "is_local"),
    [
        ("", True),
        ("spark: {master: 'local[2]'}\n", True),
        ("checkpoints: 's3a://bucket/checkpoints'\n", False),
        ("spark: {master: 'spark://host:7077'}\n", False),
        ("spark: {settings: {spark.hadoop.fs.defaultFS: 'hdfs://host'}}\n", False),
    ],
)
def test_checkpoints_are_written_as_files_only_where_all_of_them_are(
    added: str, is_local: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    assert has_local_checkpoints(loaded(tmp_path, GOOD + added)) is is_local


def test_a_configuration_of_hadoop_may_name_another_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert not has_local_checkpoints(loaded(tmp_path, GOOD))


def test_one_sink_elsewhere_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    elsewhere = GOOD.replace("key: device}", "key: device, checkpoint: 'hdfs://host/alerts'}")
    assert not has_local_checkpoints(loaded(tmp_path, elsewhere))
