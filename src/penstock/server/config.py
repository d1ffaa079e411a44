"""The configuration of a server, declared once: what can be set, with which defaults and bounds, and what it is for.

Durations are milliseconds and sizes bytes in memory; people write them as `30s` and `8MiB`, under the attribute's name
without its unit. load() is the only way in; options() of a section is what the parts below take."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from penstock.broker.catalogue.volatile import VolatileOptions
from penstock.broker.webhooks.events import without_secrets
from penstock.broker.webhooks.webhooks import MAX_HOOKS
from penstock.core.errors import InvalidArgument
from penstock.core.settings.numbers import Auto, Count, Duration, Size
from penstock.core.settings.objects import Objects
from penstock.core.settings.texts import Text
from penstock.core.settings.words import Choice, Flag
from penstock.core.types import Durability
from penstock.queues.templates import Template
from penstock.server.config_amqp import Amqp
from penstock.server.config_auth import Auth, RateLimit
from penstock.server.config_exchanges import check_queue, parse_exchange
from penstock.server.config_http import Http
from penstock.server.config_listeners import LISTENER_NAMES, Listeners, check_path, contradiction
from penstock.server.config_mqtt import Mqtt
from penstock.server.config_otlp import Otlp
from penstock.server.config_policies import check_policy
from penstock.server.config_storage import Storage
from penstock.server.config_webhooks import Webhook
from penstock.server.descriptors import Descriptors, open_files_limit, shared_out
from penstock.server.written import (
    BadConfiguration,
    Tree,
    from_environment,
    from_file,
    from_flags,
    over,
    place_of,
    read,
)


class LogLevel(enum.Enum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


class LogFormat(enum.Enum):
    TEXT = "text"
    JSON = "json"


class LoopKind(enum.Enum):
    ASYNCIO = "asyncio"
    UVLOOP = "uvloop"


class _Section(msgspec.Struct, frozen=True, kw_only=True):
    """What every section is."""


def _check_path(text: str) -> None:
    if not text.strip():
        raise InvalidArgument("is empty: write the path of a file, or null for standard error")


def _check_exchange(written: dict[str, object]) -> None:
    parse_exchange(written)


def _check_template(written: dict[str, object]) -> None:
    match, settings = written.get("match"), written.get("settings", {})
    unknown = written.keys() - {"match", "settings"}
    if unknown or not isinstance(match, str) or not isinstance(settings, Mapping):
        raise InvalidArgument("a template has a pattern `match` and `settings`: {match: orders-*, settings: {…}}")
    Template(match, settings)


class Log(_Section, frozen=True, kw_only=True):
    level: Annotated[LogLevel, Choice(LogLevel)] = LogLevel.INFO
    """lowest level that is logged; SIGUSR1 turns debug on and off"""
    format: Annotated[LogFormat, Choice(LogFormat)] = LogFormat.TEXT
    """text for people, or one JSON object per line"""
    file: Annotated[str | None, Text(_check_path)] = None
    """append log lines to this file instead of standard error; reopened when logrotate moves it away"""


_VOLATILE = VolatileOptions()


class AutoQueues(_Section, frozen=True, kw_only=True):
    auto_create: Annotated[bool, Flag()] = True
    """publishing or subscribing to `$queue/…` creates a queue that does not exist"""
    max_auto_queues: Annotated[int, Count(0, 1_000_000)] = 10_000
    """most queues that may be created this way"""
    volatile_queues: Annotated[int, Count(0, 1_000_000)] = _VOLATILE.queues
    """most queues that are in memory alone, as exclusive ones of AMQP and those that are not durable"""
    volatile_size_bytes: Annotated[int, Size(1 << 20, 1 << 40)] = _VOLATILE.bytes
    """memory for messages of all of them; publishes are refused beyond it"""
    volatile_queue_size_bytes: Annotated[int, Size(1 << 10, 1 << 40)] = _VOLATILE.queue_bytes
    """memory for messages of one of them; publishes are refused beyond it"""
    templates: Annotated[tuple[dict[str, object], ...], Objects(_check_template, without_secrets)] = ()
    """settings for queues whose name matches: `{match: orders-*, settings: {partitions: 4}}`; later ones go over
    earlier ones and over those stored in the data directory"""


class Config(_Section, frozen=True, kw_only=True):
    data_dir: Annotated[str, Text(check_path)] = "./penstock-data"
    """data directory; created if it does not exist"""
    durability: Annotated[Durability, Choice(Durability)] = Durability.COMMIT
    """of sessions, retained messages, and queues that say nothing else: `commit` acknowledges what is synced,
    `interval` what is written and synced within a second, `memory` what is taken"""
    loop: Annotated[LoopKind, Choice(LoopKind)] = LoopKind.ASYNCIO
    """event loop; `uvloop` needs the extra `uvloop`"""
    shutdown_timeout_ms: Annotated[int, Duration()] = 30_000
    """SIGTERM waits so long for what was taken to be committed and answered, then the process ends with 1"""
    log: Log = Log()
    """log lines"""
    listeners: Listeners = Listeners()
    """where clients connect; null switches one off"""
    max_connections: Annotated[int | None, Auto(Count(1, 1 << 20))] = None
    """at once, over all listeners but Flight's; never more than the limit of open files (`ulimit -Hn`) leaves beside
    what storage needs, which is `auto`. A tenth, 64 at most, is for HTTP alone: for probes and operators"""
    mqtt: Mqtt = Mqtt()
    """the protocol, on every listener whose name begins with mqtt"""
    amqp: Amqp = Amqp()
    """AMQP 0.9.1, on every listener whose name begins with amqp"""
    http: Http = Http()
    """requests and answers, on the listener http"""
    auth: Auth = Auth()
    """who may connect and do what"""
    rate_limit: RateLimit = RateLimit()
    """on listeners that are not loopback"""
    broker: AutoQueues = AutoQueues()
    """queues that nobody declared"""
    storage: Storage = Storage()
    """the journal and the files behind it"""
    webhooks: tuple[Webhook, ...] = ()
    """servers that are told what happens here"""
    otlp: Otlp | None = None
    """metrics pushed over OTLP; needs the extra `otlp`"""
    exchanges: Annotated[tuple[dict[str, object], ...], Objects(_check_exchange)] = ()
    """declared at start if they are not there: `{name: logs, type: topic, alternate: amq.fanout}`, with auto_delete,
    internal, arguments and namespace; those that differ stay as they are, and a log line says so"""
    policies: Annotated[tuple[dict[str, object], ...], Objects(check_policy)] = ()
    """laid over queues whose names match: `{name: short, pattern: ^tmp, definition: {message-ttl: 60000}}`, with
    apply_to, priority and namespace; they go before stored ones of their name"""
    queues: Annotated[tuple[dict[str, object], ...], Objects(check_queue, without_secrets)] = ()
    """declared at start if they are not there; settings that differ are changed where that can be, and `bindings`
    that are not there are made: `bindings: [{exchange: logs, key: 'eu.#', headers: {}, match: all}]`"""


def load(file: Path | None, variables: Mapping[str, str], flags: Iterable[str]) -> Config:
    """Flags over variables over the file over the defaults. BadConfiguration names the key and where it stands."""
    tree = over(over(from_file(file) if file else {}, from_environment(variables)), from_flags(flags))
    config = read(Config, tree)
    _check_together(config, tree)
    return config


def descriptors_of(config: Config, limit: int | None = None) -> Descriptors:
    """How this process shares them out, or one that may open so many files."""
    limit = open_files_limit() if limit is None else limit
    return shared_out(limit, config.storage.max_open_files, config.max_connections)


def _check_together(config: Config, tree: Tree) -> None:
    if not config.listeners.switched_on():
        reason = f"all are off, so nobody could connect: turn on one of {', '.join(LISTENER_NAMES)}"
        raise BadConfiguration("listeners", reason, place=place_of(tree, "listeners"))
    for name, listener in config.listeners.all_switched_on().items():
        found = contradiction(name, listener, config.auth.development_mode)
        if found is not None:
            path = f"listeners.{name}.{found[0]}"
            raise BadConfiguration(path, found[1], place=place_of(tree, path))
    _check_webhooks(config, tree)
    config.storage.options()


def _check_webhooks(config: Config, tree: Tree) -> None:
    if len(config.webhooks) > MAX_HOOKS:
        reason = f"there are {len(config.webhooks)}, the limit is {MAX_HOOKS}: let one of them pass events on"
        raise BadConfiguration("webhooks", reason, place=place_of(tree, "webhooks"))
    seen: dict[str, int] = {}
    for number, hook in enumerate(config.webhooks):
        first = seen.setdefault(hook.url, number)
        if first != number:
            path = f"webhooks[{number}].url"
            reason = f"is that of webhooks[{first}] too: write all events of an address in one"
            raise BadConfiguration(path, reason, place=place_of(tree, path))
