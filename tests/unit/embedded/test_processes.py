"""Other processes: a second one, a forked one, and one that ends without closing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.embedded.conftest import SMALL

import penstock
from penstock.core.errors import DirectoryInUse


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments], capture_output=True, text=True, timeout=30, check=False
    )


def test_a_second_process_is_told_who_holds_the_directory_and_what_to_do(db: penstock.Database) -> None:
    ended = python("import penstock, sys; penstock.open(sys.argv[1])", str(db.directory))
    assert ended.returncode == 1
    assert f"process {os.getpid()}" in ended.stderr and "penstock serve" in ended.stderr


def test_a_second_opening_in_this_process_is_refused(db: penstock.Database) -> None:
    with pytest.raises(DirectoryInUse, match=f"process {os.getpid()}.*penstock serve"):
        penstock.open(db.directory)


def test_a_forked_child_is_told_so_and_harms_nothing(db: penstock.Database) -> None:
    db.put("orders", b"x")
    with db.consume("orders") as messages:
        message = messages.get(timeout=5)
        assert message is not None
        ended = _in_a_fork(db, message)
        assert ended.count("DirectoryInUse") == 3, ended
        assert f"process {os.getpid()}" in ended and "was forked" in ended and "penstock serve" in ended
        message.ack()
    assert db.put("orders", b"y").endswith(":1")


def _in_a_fork(db: penstock.Database, message: penstock.Message) -> str:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        told = []
        for call in (lambda: db.put("orders", b"z"), message.ack, lambda: db.consume("orders")):
            try:
                call()
            except DirectoryInUse as error:
                told.append(f"DirectoryInUse: {error}")
        db.close()
        os.write(writing, "\n".join(told).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return text


FORGETFUL = """
import penstock, sys, threading
db = penstock.open(sys.argv[1])
db.declare("orders", durability="interval")
db.put_many("orders", [b"a", b"b"])
messages = db.consume("orders")
messages.get().ack()
threading.Thread(target=messages.get, daemon=True).start()
"""


def test_a_directory_that_was_not_closed_is_closed_when_the_process_ends(directory: Path) -> None:
    ended = python(FORGETFUL, str(directory))
    assert (ended.returncode, ended.stderr) == (0, "")
    with penstock.open(directory, options=SMALL) as db, db.consume("orders", idle_timeout=0.05) as messages:
        assert [message.value for message in messages] == [b"b"]


CHEAP = "import penstock, sys; assert not {'asyncio', 'msgspec', 'penstock.broker'} & set(sys.modules), sys.modules"


def test_importing_penstock_imports_little_and_every_name_is_there() -> None:
    assert python(CHEAP).stderr == ""
    for name in penstock.__all__:
        assert getattr(penstock, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        penstock.nonsense  # noqa: B018  # what is tested
