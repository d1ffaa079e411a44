"""Java is found, or the error says how to get it."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core.errors import UnsupportedPlatform
from penstock.spark.java import java_home, java_version


def _java(home: Path, version: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-20' >&2\n")
    program.chmod(0o755)
    return home


def test_java_home_wins_over_the_path(tmp_path: Path) -> None:
    named, other = _java(tmp_path / "named", "21.0.2"), _java(tmp_path / "other", "17.0.10")
    assert java_home({"JAVA_HOME": str(named), "PATH": str(other / "bin")}) == named


def test_a_java_of_the_path_is_followed_to_its_home(tmp_path: Path) -> None:
    home = _java(tmp_path / "jdk", "17.0.10")
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(home / "bin" / "java")
    assert java_home({"PATH": str(links)}) == home


def test_an_old_java_of_the_path_is_passed_over_for_one_in_the_usual_places(tmp_path: Path) -> None:
    old = _java(tmp_path / "old", "1.8.0_402")
    fitting = _java(tmp_path / "jvm" / "java-17", "17.0.1")
    assert java_home({"PATH": str(old / "bin")}, (str(tmp_path / "jvm"),)) == fitting


def test_without_java_the_error_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedPlatform, match=r"apt install openjdk-17-jre-headless.*JAVA_HOME"):
        java_home({"PATH": str(tmp_path)}, ())


def test_a_java_home_that_is_too_old_or_empty_is_not_replaced_silently(tmp_path: Path) -> None:
    old = _java(tmp_path / "old", "11.0.2")
    with pytest.raises(UnsupportedPlatform, match="Java 11, which is too old"):
        java_home({"JAVA_HOME": str(old)})
    with pytest.raises(UnsupportedPlatform, match="no bin/java runs there"):
        java_home({"JAVA_HOME": str(tmp_path / "none")})


def test_the_version_of_java_8_is_8(tmp_path: Path) -> None:
    assert java_version(_java(tmp_path, "1.8.0_402")) == 8
