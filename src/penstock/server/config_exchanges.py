"""Exchanges and bindings as the configuration has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import msgspec

from penstock.core.errors import ExchangeDiffers, ExchangeReserved, InvalidArgument, InvalidSetting
from penstock.core.settings.kind import nearest_of
from penstock.queues.bindings import Bindings
from penstock.queues.exchange_headers import MATCH, Value, predicate
from penstock.queues.exchange_topics import TOPIC_EXCHANGE, filter_of_key
from penstock.queues.exchanges import Exchange, Exchanges, check_key
from penstock.queues.names import DEFAULT_NAMESPACE, check_exchange_name, check_namespace, check_own_queue_name
from penstock.queues.settings import parse_queue

BINDINGS = "bindings"
"""the setting of a queue that is not stored with the others"""


class _Exchange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    type: str = "direct"
    auto_delete: bool = False
    internal: bool = False
    alternate: str | None = None
    arguments: dict[str, object] = {}
    namespace: str = DEFAULT_NAMESPACE


class _Binding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    exchange: str
    key: str = ""
    headers: dict[str, object] = {}
    match: str | None = None


Read = TypeVar("Read", _Exchange, _Binding)


class WrittenBinding(NamedTuple):
    exchange: str
    key: str
    arguments: Mapping[str, Value]


def parse_exchange(written: Mapping[str, object]) -> tuple[str, Exchange]:
    """And its namespace. InvalidSetting, InvalidArgument."""
    said = _converted(written, _Exchange, "")
    check_namespace(said.namespace)
    arguments: dict[str, Value] = said.arguments  # type: ignore[assignment]  # what YAML has
    made = Exchange(said.name, said.type, True, said.auto_delete, said.internal, said.alternate, arguments)
    try:
        Exchanges(said.namespace, Bindings()).check_declare(made)
    except (ExchangeReserved, ExchangeDiffers) as error:
        raise InvalidArgument(str(error)) from None
    return said.namespace, made


def parse_bindings(written: Mapping[str, object]) -> list[WrittenBinding]:
    """Of a queue. InvalidSetting, InvalidArgument."""
    listed = written.get(BINDINGS) or []
    if not isinstance(listed, list):
        raise InvalidSetting(BINDINGS, "is not a list: write [{exchange: logs, key: 'eu.#'}]")
    found = []
    for number, each in enumerate(listed):
        if not isinstance(each, Mapping):
            raise InvalidSetting(f"{BINDINGS}[{number}]", "is not an object: write {exchange: logs, key: 'eu.#'}")
        said = _converted(each, _Binding, f"{BINDINGS}[{number}].")
        check_exchange_name(said.exchange)
        check_key(said.key)
        arguments: dict[str, Value] = dict(said.headers)  # type: ignore[arg-type]  # what YAML has
        if said.match is not None:
            arguments[MATCH] = said.match
        predicate(arguments)
        found.append(WrittenBinding(said.exchange, said.key, arguments))
    return found


def check_queue(written: dict[str, object]) -> None:
    """With its bindings."""
    parse_bindings(written)
    check_own_queue_name(parse_queue(without_bindings(written)).name)


def without_bindings(written: Mapping[str, object]) -> dict[str, object]:
    """The settings that are stored. Bindings of amq.topic that are filters are topics of the queue: beside those that
    are written, they do not go and come again at every start."""
    settings = {name: value for name, value in written.items() if name != BINDINGS}
    topics = settings.get("topics")
    if isinstance(topics, list):
        bound = [each for each in parse_bindings(written) if each.exchange == TOPIC_EXCHANGE and not each.arguments]
        more = [filter_of_key(each.key) for each in bound]
        settings["topics"] = [*topics, *[each for each in more if each is not None and each not in topics]]
    return settings


def _converted(written: Mapping[str, object], kind: type[Read], path: str) -> Read:
    for name in written:
        if name not in kind.__struct_fields__:
            raise InvalidSetting(f"{path}{name}", "no such setting", nearest_of(name, kind.__struct_fields__))
    try:
        return msgspec.convert(dict(written), kind)
    except msgspec.ValidationError as error:
        raise InvalidSetting(f"{path}{next(iter(kind.__struct_fields__))}", str(error)) from None
