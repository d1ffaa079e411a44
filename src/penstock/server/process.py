"""The life of the process: signals, the time it may take to end, what it says on the way."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ipaddress
import logging
import os
import resource
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from penstock.core.errors import InvalidArgument, PenstockError
from penstock.gateways.http.ports import Operations
from penstock.log.threads import SWITCH_INTERVAL_S
from penstock.server.config import Config
from penstock.server.config_listeners import Listener, WebSocketListener
from penstock.server.context import LOCAL, Context, context_file, http_address, mqtt_address, write_local
from penstock.server.event_loop import loop_factory
from penstock.server.log_lines import LogLines
from penstock.server.operations import ServerOperations
from penstock.server.ready import SERVER_FILE, ReadyFile
from penstock.server.server import Server, Works

logger = logging.getLogger("penstock.server")

_GARBAGE_THRESHOLDS = 20_000, 20, 50

OK, FAILED = 0, 1
HTTP = "http"

Say = Callable[[str], None]
OpenWorks = Callable[[Config, Operations], Awaitable[Works]]


class Process:
    """One run of `penstock serve`. `load` reads the configuration, at the start and again at each SIGHUP; `say` is for
    what must reach a person and no log."""

    def __init__(self, load: Callable[[], Config], open_works: OpenWorks, say: Say, ready_file: Path | None) -> None:
        self._load, self._open_works, self._say = load, open_works, say
        self._config = load()
        self._new_loop = loop_factory(self._config.loop)
        self._lines = LogLines(self._config.log)
        self._ready = None if ready_file is None else ReadyFile(ready_file)
        self._here: ReadyFile | None = None
        self._stopping: asyncio.Event
        self._operations: ServerOperations
        self._reloads: set[asyncio.Task[None]] = set()

    def run(self) -> int:
        """The exit code after a drained stop. If that takes too long, or at a second signal, the process ends here."""
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_INTERVAL_S))
        _allow_open_files()
        with asyncio.Runner(loop_factory=self._new_loop) as runner:
            return runner.run(self._live())

    async def _live(self) -> int:
        self._stopping = asyncio.Event()
        operations = self._operations = ServerOperations(self._load, self._lines)
        self._listen_to_signals()
        with _no_garbage_collector():
            server = await Server.start(self._config, lambda config: self._open_works(config, operations))
        operations.begin(server)
        _calm_garbage_collector()
        try:
            self._tell_ready(server)
            await self._stopping.wait()
        finally:
            operations.end()
            await self._stop(server)
        return OK

    def _tell_ready(self, server: Server) -> None:
        self._tell_first_password(server)
        url = url_of(server.config, server.addresses)
        self._here = ReadyFile(Path(self._config.data_dir) / SERVER_FILE)
        self._here.write(server.addresses, url)
        if self._ready is not None:
            self._ready.write(server.addresses, url)
        logger.info("ready pid=%d data_dir=%s", os.getpid(), self._config.data_dir)

    async def _stop(self, server: Server) -> None:
        for file in (self._ready, self._here):
            if file is not None:
                file.remove()
        timeout_s = server.config.shutdown_timeout_ms / 1000
        stopping = asyncio.ensure_future(server.stop())
        await asyncio.wait([stopping], timeout=timeout_s)
        if not stopping.done():
            logger.critical(
                "not stopped within shutdown_timeout=%gs: ends now; what was acknowledged is on disk, and the journal "
                "is replayed at the next start",
                timeout_s,
            )
            _end_at_once()
        await stopping

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_log_unhandled)
        loop.add_signal_handler(signal.SIGTERM, self._end, "SIGTERM")
        loop.add_signal_handler(signal.SIGINT, self._end, "SIGINT")
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        loop.add_signal_handler(signal.SIGUSR1, self._lines.toggle_debug)

    def _end(self, name: str) -> None:
        if self._stopping.is_set():
            logger.critical("second signal=%s: ends at once; the journal is replayed at the next start", name)
            _end_at_once()
        logger.info("signal=%s: draining, once more ends at once", name)
        self._stopping.set()

    def _reload(self) -> None:
        task = asyncio.get_running_loop().create_task(self._reload_now())
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)

    async def _reload_now(self) -> None:
        """The same as through any other door; what went wrong is counted and logged there."""
        with contextlib.suppress(PenstockError):
            await self._operations.reload()

    def _tell_first_password(self, server: Server) -> None:
        """Once, to standard output and to the commands of this user; no log has it."""
        if server.first_password is None:
            return
        self._say(f"This is the first start: user admin was made, with password {server.first_password}")
        self._say("It is shown this once. Change it with `penstock user passwd`, add others with `penstock user add`.")
        file = context_file(os.environ)
        try:
            found = write_local(file, context_of(server.config, server.addresses, server.first_password))
        except (OSError, InvalidArgument) as error:
            logger.warning("the local context cannot be written file=%s reason=%s", file, error)
            return
        self._say(f"Commands of this user find it in {file}, as context {LOCAL}.")
        if found.current_context != LOCAL:
            self._say(f"They use {found.current_context} now: `penstock context use {LOCAL}` changes that.")


def context_of(config: Config, addresses: Mapping[str, tuple[str, int]], password: str) -> Context:
    """How commands on this machine reach the server: over MQTT by its first listener."""
    listeners = config.listeners.switched_on()
    mqtt = None
    if (name := next((name for name in listeners if name.startswith("mqtt")), None)) is not None:
        listener, (host, port) = listeners[name], _from_here(addresses[name])
        path = listener.path if isinstance(listener, WebSocketListener) else None
        mqtt = mqtt_address(host, port, is_tls=listener.tls is not None, path=path)
    url = url_of(config, addresses)
    return Context(
        url=url,
        mqtt=mqtt,
        username="admin",
        password=password,
        local=True,
        server_certificate_file=_certificate(listeners, [HTTP, name]),
    )


def _certificate(listeners: Mapping[str, Listener], names: Iterable[str | None]) -> str | None:
    """The file of the first of them that has TLS. Commands trust what is in it then: a renewed one too."""
    found = (listeners[name].tls for name in names if name is not None and name in listeners)
    file = next((tls.certificate for tls in found if tls is not None), None)
    return None if file is None else str(Path(file).absolute())


def url_of(config: Config, addresses: Mapping[str, tuple[str, int]]) -> str | None:
    """Of HTTP, for who is on this machine."""
    if HTTP not in addresses:
        return None
    host, port = _from_here(addresses[HTTP])
    return http_address(host, port, is_tls=config.listeners.switched_on()[HTTP].tls is not None)


def _from_here(address: tuple[str, int]) -> tuple[str, int]:
    host, port = address
    if ipaddress.ip_address(host).is_unspecified:
        host = "::1" if ":" in host else "127.0.0.1"
    return host, port


@contextmanager
def _no_garbage_collector() -> Iterator[None]:
    """What is read at the start stays: to look through all of it again and again took a quarter of the time that
    100,000 sessions need."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _calm_garbage_collector() -> None:
    """What is there when the server starts stays. Objects of messages die without it; a look at everything else takes
    tens of milliseconds, in which nobody is answered, and is made rarely."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GARBAGE_THRESHOLDS)


def _allow_open_files() -> None:
    """A connection is a descriptor, and many systems give a process 1024 until it asks for what it may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError) as error:
            logger.warning("the limit of open files stays limit=%d reason=%s", soft, error)


def _log_unhandled(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    logger.error("unhandled in the event loop what=%s", context.get("message"), exc_info=error)


def _end_at_once() -> NoReturn:
    """Without the interpreter's own end, which waits for threads that may be stuck."""
    logging.shutdown()
    sys.stdout.flush()
    os._exit(FAILED)
