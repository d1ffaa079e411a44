"""What comes on standard input is bytes, however strange: it is taken as it is, or refused with a clear error."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.crash.appends import SMALL, look_at
from tests.support.cli import offsets, penstock

from penstock.log.header import MAX_BODY_BYTES

pytestmark = pytest.mark.faults


def test_binary_lines_are_kept_byte_for_byte(tmp_path: Path) -> None:
    given = random.Random(1).randbytes(1 << 20).split(b"\n")
    given = given if given[-1] else given[:-1]
    ran = penstock("log", "append", tmp_path / "data", "--log", "a", *SMALL, given=b"\n".join(given))
    assert offsets(ran.stdout)[-1] == len(given) - 1
    assert list(look_at(tmp_path / "data")["a"].records.values()) == given


@pytest.mark.parametrize("end", [b"", b"\nnext\n"], ids=["unfinished", "finished"])
def test_a_line_over_the_limit_is_refused_and_what_came_before_is_kept(tmp_path: Path, end: bytes) -> None:
    given = b"before\n" + b"x" * (MAX_BODY_BYTES + 1000) + end
    ran = penstock("log", "append", tmp_path / "data", "--log", "a", "--disk-reserve", "0", given=given, expected=1)
    assert ran.stderr.count(b"\n") == 1
    assert b"the limit is" in ran.stderr
    assert offsets(ran.stdout)[-1] == 0
    assert look_at(tmp_path / "data")["a"].records == {0: b"before"}


@pytest.mark.parametrize("name", ["", "/", "a//b", "../../etc/passwd", "a" * 5000, "ä/ö", "..", "a\nb"])
def test_a_strange_name_of_a_log_is_encoded_or_refused_and_stays_in_the_directory(tmp_path: Path, name: str) -> None:
    place = tmp_path / "place"
    place.mkdir()
    arguments = ("log", "append", place / "data", "--log", name, *SMALL)
    try:
        penstock(*arguments, given=b"x\n")
    except AssertionError:
        refused = penstock(*arguments, given=b"x\n", expected=2)
        assert b"Traceback" not in refused.stderr
    else:
        [contents] = look_at(place / "data").values()
        assert contents.records == {0: b"x"}
    assert {path.name for path in place.iterdir()} <= {"data"}


def test_a_directory_that_is_not_ours_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "letters").write_bytes(b"dear")
    ran = penstock("log", "append", tmp_path, "--log", "a", *SMALL, given=b"x\n", expected=1)
    assert b"not a Penstock data directory" in ran.stderr
    assert (tmp_path / "letters").read_bytes() == b"dear"
    assert {path.name for path in tmp_path.iterdir()} <= {"letters", "lock"}
