"""What the process of a door asks the server to do: each request is answered when it is done. On the server's loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Generic

from penstock.core.errors import PenstockError
from penstock.gateways.beside.frames import Heads, HeadT, refusal_bytes, reply_bytes
from penstock.gateways.beside.intake import Intake

logger = logging.getLogger("penstock.beside")

Work = tuple[int, Coroutine[None, None, object]]
"""the id of a request, and what gives its answer"""


class Requests(Generic[HeadT]):
    """Of one process: what was received whole is finished, also when the process is gone. `begin` gives the work of a
    request, None where nothing is to be answered; `ended` is called once, when the process is gone."""

    def __init__(
        self,
        door: str,
        heads: Heads[HeadT],
        begin: Callable[[HeadT, Sequence[bytearray]], Work | None],
        ended: Callable[[], None],
    ) -> None:
        self._door, self._begin, self._when_ended = door, begin, ended
        self._tasks: set[asyncio.Task[None]] = set()
        self.intake = Intake(heads, self.handle, self._ended)

    def handle(self, head: HeadT, bodies: Sequence[bytearray]) -> None:
        if (work := self._begin(head, bodies)) is None:
            return
        size = sum(map(len, bodies))
        self.intake.open(size)
        task = asyncio.get_running_loop().create_task(self._answer(*work, size))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Returns when everything that was received whole is done."""
        self.intake.close()
        if self._tasks:
            await asyncio.wait(list(self._tasks))

    def _ended(self, error: Exception | None) -> None:
        self._when_ended()
        if error is not None:
            logger.error("the listener %s sent what cannot be read error=%s", self._door, error)

    async def _answer(self, id: int, work: Coroutine[None, None, object], size_bytes: int) -> None:
        """What nobody foresaw is told too: somebody waits for it."""
        try:
            said = reply_bytes(id, await work)
        except PenstockError as error:
            said = refusal_bytes(id, error.code.value, str(error))
        except Exception:
            logger.exception("unexpected while working for the listener %s", self._door)
            said = refusal_bytes(id, "refused", "something went wrong in the server; its log says where")
        finally:
            self.intake.done(size_bytes)
        self.intake.say(said)
