"""A door in a process of its own: it asks, it gives work, it is started again, and it ends with the server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.support.beside_child import HEADS, Asked, Told, Turned

from penstock.core.errors import CannotListen, ErrorCode
from penstock.gateways.beside import door as doors
from penstock.gateways.beside.door import BesideDoor, Program
from penstock.gateways.beside.lines import ListenOptions
from penstock.gateways.beside.requests import Requests, Work

ROOT = Path(__file__).parents[4]


async def _greet(question: Asked) -> Told:
    if question.name == "nobody":
        return Told(id=question.id, error=ErrorCode.NOT_AUTHORISED.value, reason="not you")
    return Told(id=question.id, greeting="hello")


def _begin(head: Turned, bodies: Sequence[bytearray]) -> Work | None:
    async def turned() -> str:
        return bytes(bodies[0]).decode()[::-1]

    return head.id, turned()


def _door(host: str = "127.0.0.1") -> BesideDoor[Turned, Asked]:
    program = Program("echo", "tests.support.beside_child")
    options = ListenOptions(host=host, port=0)
    return BesideDoor(program, options, lambda: Requests("echo", HEADS, _begin, lambda: None), Asked, _greet)


async def _said(door: BesideDoor[Turned, Asked], name: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(*door.addresses["echo"])
    writer.write(name)
    try:
        return await asyncio.wait_for(reader.read(), 30)
    finally:
        writer.close()


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110  # a process ends and begins when it does
            await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'src'}")
    monkeypatch.setattr(doors, "_FIRST_PAUSE_S", 0.01)


def test_questions_and_requests_of_the_process_are_answered() -> None:
    async def main() -> None:
        door = _door()
        await door.start()
        try:
            assert door.not_accepting == [] and door.connection_count == 0
            assert await asyncio.gather(*(_said(door, b"abc") for _ in range(3))) == [b"hello cba"] * 3
            assert await _said(door, b"nobody") == b"not-authorised: not you"
        finally:
            await door.close()
        assert door.not_accepting == ["echo"]

    asyncio.run(main())


def test_a_process_that_ended_is_started_again_on_the_same_port() -> None:
    async def main() -> None:
        door = _door()
        await door.start()
        try:
            address = door.addresses["echo"]
            assert await _said(door, b"end") == b""
            await _until(lambda: door.not_accepting == ["echo"])
            await _until(lambda: door.not_accepting == [])
            assert door.addresses["echo"] == address
            assert await _said(door, b"abc") == b"hello cba"
        finally:
            await door.close()

    asyncio.run(main())


def test_one_that_is_closed_at_once_leaves_no_process() -> None:
    async def main() -> None:
        door = _door()
        await door.start()
        await door.close()
        with pytest.raises(OSError):
            await _said(door, b"abc")

    asyncio.run(main())


def test_a_listener_that_cannot_start_says_why() -> None:
    async def main() -> None:
        with pytest.raises(CannotListen, match="echo"):
            await _door(host="203.0.113.1").start()

    asyncio.run(main())
