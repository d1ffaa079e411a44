"""A server from its start to its end: listeners in front, broker and gateway behind them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from penstock.broker.auth.access import tokens_of
from penstock.broker.broker import Broker
from penstock.core.errors import Closed
from penstock.gateways.http.ports import Change
from penstock.server.config import Config, descriptors_of
from penstock.server.declared import Declared
from penstock.server.doors import Doors, Gateways, contexts_of
from penstock.server.extras import check_extras
from penstock.server.flight import check_flight
from penstock.server.reload import all_changes, reloadable, text_of
from penstock.server.weaknesses import weaknesses

logger = logging.getLogger("penstock.server")

# With fewer files of segments open, queues by the hundred make storage open and close them all the time.
_FEW_FILES = 512


class Works(Protocol):
    """Everything behind the listeners."""

    @property
    def broker(self) -> Broker: ...

    @property
    def gateways(self) -> Gateways: ...

    @property
    def connection_count(self) -> int: ...

    @property
    def addresses(self) -> dict[str, tuple[str, int]]:
        """Of listeners that are not the server's own."""
        ...

    @property
    def not_accepting(self) -> list[str]:
        """Of these, the names of those that do not accept connections now."""
        ...

    async def bootstrap(self) -> str | None:
        """The password of a new user `admin` if there was no user at all. It is nowhere else."""
        ...

    def may_connect(self, peer: str) -> bool:
        """Is it within the limit of its address?"""
        ...

    def has_room(self, listener: str, descriptor: int, coming: int) -> bool:
        """Is one more within the limit of all connections, `coming` of which no gateway has yet? One that is not, is
        counted."""
        ...

    async def apply(self, config: Config) -> None:
        """What of a changed configuration concerns them: all of it, or nothing if it raises."""
        ...

    async def drain(self) -> None:
        """What was taken is committed and answered; connections end."""
        ...

    async def close(self) -> None:
        """Gateways and broker, after the gateways were drained."""
        ...


OpenWorks = Callable[[Config], Awaitable[Works]]


def check_files(config: Config) -> None:
    """BadConfiguration or InvalidSetting for packages, keys and certificates that are missing or will not do."""
    check_extras(config)
    contexts_of(config.listeners)
    check_flight(config)
    tokens_of(config.auth.options())


class Server:
    """Use Server.start(), then stop()."""

    def __init__(self, config: Config, doors: Doors, works: Works) -> None:
        self.config, self.works = config, works
        self.first_password: str | None = None
        self._doors = doors
        self._declared = Declared(works.broker)
        self._one_at_a_time = asyncio.Lock()
        self._is_stopping = False

    @classmethod
    async def start(cls, config: Config, open_works: OpenWorks) -> Server:
        """All listeners accept when it returns. What it raises leaves nothing open."""
        check_files(config)
        doors = Doors(config)
        try:
            works = await open_works(config)
            try:
                server = cls(config, doors, works)
                await server._begin()
            except BaseException:
                await works.close()
                raise
        except BaseException:
            await doors.close()
            doors.end()
            raise
        return server

    @property
    def addresses(self) -> dict[str, tuple[str, int]]:
        return self._doors.addresses | self.works.addresses

    async def stop(self) -> None:
        """Nobody new is let in, what was taken is committed and answered, then everything is closed."""
        logger.info("stopping connections=%d", self.works.connection_count)
        self._is_stopping = True
        async with self._one_at_a_time:
            await self._doors.close()
            try:
                await self.works.drain()
            finally:
                await self.works.close()
                self._doors.end()
        logger.info("stopped")

    async def check(self, wanted: Config) -> None:
        """Raises what reload() would, as far as that can be known; nothing changes."""
        check_files(reloadable(self.config, wanted))

    async def reload(self, wanted: Config) -> list[Change]:
        """What can change does; the rest is named. BadConfiguration for certificates and keys that will not do, and
        what a queue cannot be declared with: nothing changes then, but for queues that were declared before it. Closed
        once it stops."""
        async with self._one_at_a_time:
            if self._is_stopping:
                raise Closed("the server is stopping: its next start reads the configuration")
            changed = reloadable(self.config, wanted)
            check_files(changed)
            contexts = contexts_of(changed.listeners)
            await self._apply(changed)
            self._doors.apply(changed, self.works.gateways, contexts)
            changes, self.config = all_changes(self.config, wanted), changed
            _tell(changes)
            logger.info("configuration reloaded certificates=%d", len(contexts))
            return changes

    async def _apply(self, changed: Config) -> None:
        """Queues first, because they are all that can fail once everything was checked."""
        try:
            await self._declared.apply(changed)
            await self.works.apply(changed)
        except BaseException:
            self._declared.put_templates(self.config)
            raise

    @property
    def not_accepting(self) -> list[str]:
        """Names of listeners that do not accept connections now."""
        return self._doors.not_accepting + self.works.not_accepting

    async def _begin(self) -> None:
        await self._declared.apply(self.config)
        if not self.config.auth.development_mode:
            self.first_password = await self.works.bootstrap()
        self._doors.open(self.config, self.works.gateways, self.works.may_connect, self.works.has_room)
        for name, (host, port) in self.addresses.items():
            listener = self.config.listeners.all_switched_on()[name]
            logger.info(
                "listening listener=%s host=%s port=%d tls=%s", name, host, port, "on" if listener.tls else "off"
            )
        _tell_descriptors(self.config)
        for weakness in weaknesses(self.config):
            logger.warning("insecure: %s", weakness)


def _tell_descriptors(config: Config) -> None:
    shares, wanted = descriptors_of(config), config.max_connections
    logger.info("connections max=%d open_files_limit=%d reserve=%d", shares.connections, shares.limit, shares.reserve)
    few_files = shares.segment_files < min(config.storage.max_open_files, _FEW_FILES)
    if few_files or (wanted is not None and wanted > shares.connections):
        logger.warning(
            "the limit of open files is low, raise it (LimitNOFILE=) limit=%d connections=%d segment_files=%d",
            shares.limit,
            shares.connections,
            shares.segment_files,
        )


def _tell(changes: Iterable[Change]) -> None:
    for change in changes:
        if change.needs_restart:
            logger.warning("not reloaded, it needs a restart %s", text_of(change))
        else:
            logger.info("reloaded %s", text_of(change))
