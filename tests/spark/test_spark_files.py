"""Files of this machine in our sessions: as Hadoop's own class writes them, without a process for each."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from pyspark.sql import SparkSession


@pytest.mark.parametrize("mode", [0o644, 0o600, 0o755, 0o1777])
def test_a_file_has_the_permissions_that_were_asked_for(spark: SparkSession, tmp_path: Path, mode: int) -> None:
    file = tmp_path / "file"
    file.touch()
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    hadoop = jvm.org.apache.hadoop.fs
    files = hadoop.FileSystem.get(jvm.java.net.URI(f"file://{tmp_path}"), spark.sparkContext._jsc.hadoopConfiguration())
    assert files.getClass().getName() == "penstock.spark.LocalFiles"
    files.setPermission(hadoop.Path(str(file)), hadoop.permission.FsPermission(mode))
    assert stat.S_IMODE(file.stat().st_mode) == mode


def test_files_keep_their_checksums(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).write.parquet(str(tmp_path / "rows"))
    assert spark.read.parquet(str(tmp_path / "rows")).count() == 3
    [rows] = (tmp_path / "rows").glob("part-00001*.parquet")
    assert (rows.parent / f".{rows.name}.crc").exists()
