from __future__ import annotations

import asyncio

from tests.support.loop import run

from penstock.broker.feed.feeder import Feeder


class Guest:
    """Somebody who is fed, and has calls to make then."""

    def __init__(self, feeder: Feeder, name: str, said: list[str]) -> None:
        self._feeder, self._name, self._said = feeder, name, said

    def feed(self) -> None:
        self._said.append(f"{self._name} is fed")
        self._feeder.after(lambda: self._encode())

    def _encode(self) -> None:
        self._said.append(f"{self._name} is encoded")
        self._feeder.soon(lambda: self._said.append("sent"))


def test_what_was_fed_goes_out_before_anything_else_of_the_loop() -> None:
    async def main() -> None:
        said: list[str] = []
        feeder = Feeder()
        for name in ("a", "b"):
            feeder.add(Guest(feeder, name, said))
        asyncio.get_running_loop().call_soon(said.append, "the next turn")
        await asyncio.sleep(0)
        assert said == ["a is fed", "b is fed", "a is encoded", "b is encoded", "sent", "sent", "the next turn"]

    run(main())


def test_where_nobody_is_fed_it_is_the_next_turn_of_the_loop() -> None:
    async def main() -> None:
        said: list[str] = []
        feeder = Feeder()
        feeder.soon(lambda: said.append("soon"))
        feeder.after(lambda: said.append("at once"))
        await asyncio.sleep(0)
        assert said == ["at once", "soon"]

    run(main())
