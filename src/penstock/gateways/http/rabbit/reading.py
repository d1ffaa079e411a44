"""Definitions as RabbitMQ exports them, read: what is to be there, and what has no meaning here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from penstock.broker.auth.rabbit_rights import roles_of, rules_of
from penstock.broker.auth.store import User
from penstock.broker.auth.users import check_user_name
from penstock.broker.catalogue.importing import Wanted, WantedBinding, WantedQueue
from penstock.codecs.amqp091.errors import AmqpError, named
from penstock.codecs.amqp091.wire import table_of
from penstock.core.errors import InvalidArgument, InvalidSetting
from penstock.gateways.http.rabbit.asked import Json, bad_request, flag_of, table_in, text_of
from penstock.gateways.http.rabbit.exchanges import exchange_in
from penstock.gateways.http.rabbit.people import hash_in, permission_in, tags_in
from penstock.gateways.http.rabbit.policies import policy_in
from penstock.gateways.http.rabbit.told import DEFAULT, declared_as
from penstock.gateways.http.server.exchange import Exchange
from penstock.gateways.http.server.problems import Refusal
from penstock.queues.declared import NamespaceRecord
from penstock.queues.exchange_headers import Value
from penstock.queues.exchange_types import Destination
from penstock.queues.exchanges import PREDECLARED
from penstock.queues.names import DEFAULT_NAMESPACE, RESERVED_PREFIX
from penstock.queues.policies import policy
from penstock.queues.rabbit_arguments import STREAM, At, Declared, check, refuse_difference
from penstock.queues.rabbit_records import record_of
from penstock.queues.rabbit_settings import queue_settings
from penstock.queues.vhosts import namespace_of_vhost

_MEANINGLESS = ("parameters", "global_parameters", "topic_permissions")
_WITHOUT_EFFECT = ("x-queue-mode", "x-queue-version", "x-queue-master-locator", "x-queue-leader-locator")


@dataclass(slots=True)
class Definitions:
    wanted: Wanted = field(default_factory=Wanted)
    notes: list[str] = field(default_factory=list)
    """what is passed over, or means less here, a sentence each"""


class Reader:
    def __init__(self, exchange: Exchange, body: Json, namespace: str | None) -> None:
        """`namespace`: of definitions of one virtual host, which do not name it."""
        self._exchange, self._body, self._namespace = exchange, body, namespace
        self.found = Definitions()

    def read(self) -> Definitions:
        """Refusal and others name what cannot be."""
        readers: dict[str, Callable[[Json], None]] = {
            "vhosts": self._vhost,
            "users": self._user,
            "permissions": self._permission,
            "policies": self._policy,
            "exchanges": self._an_exchange,
            "queues": self._queue,
            "bindings": self._binding,
        }
        for kind, read in readers.items():
            for number, each in enumerate(self._items(kind)):
                try:
                    read(each)
                except (InvalidArgument, InvalidSetting, AmqpError, Refusal) as error:
                    reason = error.fault.text.format(**error.facts) if isinstance(error, AmqpError) else str(error)
                    named_as = each.get("name", each.get("user", number))
                    raise bad_request(f"{kind}: {named_as}: {reason}. Nothing was imported") from None
        if not self._exchange.ports.access.users.are_kept and (self._items("users") or self._items("permissions")):
            self.found.notes.append("users and permissions: none are kept in development mode, they are left out")
            self.found.wanted.users, self.found.wanted.rules = [], {}
        for kind in _MEANINGLESS:
            if count := len(self._items(kind)):
                self.found.notes.append(f"{kind}: {count} of them have no meaning here and are left out")
        return self.found

    def _items(self, kind: str) -> list[Json]:
        items = self._body.get(kind, [])
        if not isinstance(items, list) or not all(isinstance(each, dict) for each in items):
            raise bad_request(f"{kind} is not a list of objects")
        return items

    def _space(self, each: Json) -> str:
        return self._namespace if self._namespace is not None else namespace_of_vhost(text_of(each, "vhost"))

    def _vhost(self, each: Json) -> None:
        namespace = namespace_of_vhost(text_of(each, "name"))
        if namespace != DEFAULT_NAMESPACE:
            self.found.wanted.namespaces.append(NamespaceRecord(namespace, text_of(each, "description", "")))

    def _user(self, each: Json) -> None:
        name, users, clock = text_of(each, "name"), self._exchange.ports.access.users, self._exchange.ports.broker.clock
        check_user_name(name)
        before = users.find(name)
        hashed = hash_in(each)
        if hashed is None:
            self.found.notes.append(f"user {name}: has no password, so it logs in by certificate or token only")
        now_ms = clock.now_ms()
        space, created = (DEFAULT_NAMESPACE, now_ms) if before is None else (before.namespace, before.created_ms)
        self.found.wanted.users.append(User(name, hashed, None, roles_of(tags_in(each)), space, created, now_ms))
        if hashed is not None:
            self.found.notes.append(f"user {name}: can log in by SCRAM after the first login with its password")

    def _permission(self, each: Json) -> None:
        user, namespace = text_of(each, "user"), self._space(each)
        try:
            rules = rules_of(user, namespace, permission_in(each))
        except InvalidArgument as error:
            self.found.notes.append(f"permissions of {user} in {namespace}: {error}; nothing is allowed by them")
            return
        self.found.wanted.rules[user, namespace] = rules

    def _policy(self, each: Json) -> None:
        record = policy_in(self._space(each), text_of(each, "name"), each)
        made = policy(record)
        self.found.wanted.policies.append(record)
        if made.without_effect:
            self.found.notes.append(f"policy {record.name}: {', '.join(made.without_effect)} have no effect here")

    def _an_exchange(self, each: Json) -> None:
        name = text_of(each, "name")
        if name in PREDECLARED or name.startswith(RESERVED_PREFIX):
            if name not in PREDECLARED:
                self.found.notes.append(f"exchange {name}: is one of RabbitMQ's own and is left out")
            return
        self.found.wanted.exchanges.append((self._space(each), exchange_in(name, each)))

    def _queue(self, each: Json) -> None:
        name, namespace = text_of(each, "name"), self._space(each)
        arguments = table_of(table_in(each, "arguments"))
        if (kind := each.get("type")) in ("quorum", "stream") and "x-queue-type" not in arguments:
            arguments |= table_of({"x-queue-type": kind})
        declared = Declared(flag_of(each, "durable", True), False, flag_of(each, "auto_delete"), arguments)
        if not declared.is_durable:
            self.found.notes.append(f"queue {name}: is not durable, and is left out")
            return
        declaring, at = self._exchange.ports.broker.declaring, At(named("queue", name, str(each.get("vhost", "/"))))
        if (there := declaring.queues.get((namespace, name))) is not None:
            refuse_difference(declared_as(there), declared, at, is_ours=there.record.declared is None)
            return
        check(declared, at)
        if idle := [argument for argument in _WITHOUT_EFFECT if argument in arguments]:
            self.found.notes.append(f"queue {name}: {', '.join(idle)} are kept and have no effect")
        settings = declaring.settings_for(
            name, {**queue_settings(declared), "namespace": namespace}, is_server_named=name.startswith(RESERVED_PREFIX)
        )
        groups = () if declared.type == STREAM else (DEFAULT,)
        self.found.wanted.queues.append(WantedQueue(settings, groups, record_of(declared)))

    def _binding(self, each: Json) -> None:
        source, kind = text_of(each, "source"), text_of(each, "destination_type", "queue")
        if not source:
            return  # of the default exchange, which has them all
        destination = text_of(each, "destination")
        if kind not in ("queue", "exchange"):
            raise bad_request(f"destination_type is {kind[:40]!r}")
        if kind == "queue" and not self._is_there(self._space(each), destination):
            self.found.notes.append(f"binding of {source} to {destination}: the queue is left out, and so is this")
            return
        arguments: dict[str, Value] = dict(table_in(each, "arguments"))  # type: ignore[arg-type]  # what JSON has
        end = Destination("queue", destination) if kind == "queue" else Destination("exchange", destination)
        key = text_of(each, "routing_key", "")
        self.found.wanted.bindings.append(WantedBinding(self._space(each), source, end, key, arguments))

    def _is_there(self, namespace: str, queue: str) -> bool:
        made: Iterable[WantedQueue] = self.found.wanted.queues
        if any((each.settings.namespace, each.settings.name) == (namespace, queue) for each in made):
            return True
        return (namespace, queue) in self._exchange.ports.broker.declaring.queues
