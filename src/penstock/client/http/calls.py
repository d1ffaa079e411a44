"""Requests as methods of both clients: the one for tasks awaits what the one for threads waits for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import update_wrapper
from typing import Generic, ParamSpec, Protocol, TypeVar, overload

from penstock.client.http import admin
from penstock.client.http.answers import Page
from penstock.client.http.requests import Ask, Requests

P = ParamSpec("P")
T = TypeVar("T")


class TaskCaller(Protocol):
    """A client whose methods are awaited."""

    async def ask(self, ask: Ask[T], /) -> T: ...

    async def ask_all(self, ask: Ask[Page[T]], /) -> list[T]: ...


class ThreadCaller(Protocol):
    """A client whose methods wait."""

    def ask(self, ask: Ask[T], /) -> T: ...

    def ask_all(self, ask: Ask[Page[T]], /) -> list[T]: ...


class call(Generic[P, T]):
    """A method that sends one request."""

    def __init__(self, build: Callable[P, Ask[T]]) -> None:
        self._build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, client: ThreadCaller, owner: type) -> Callable[P, T]: ...

    @overload
    def __get__(self, client: TaskCaller, owner: type) -> Callable[P, Awaitable[T]]: ...

    def __get__(self, client: ThreadCaller | TaskCaller, owner: type) -> Callable[P, T | Awaitable[T]]:
        def method(*args: P.args, **kwargs: P.kwargs) -> T | Awaitable[T]:
            return client.ask(self._build(*args, **kwargs))

        return update_wrapper(method, self._build)


class listing(Generic[P, T]):
    """A method that fetches a list, part by part."""

    def __init__(self, build: Callable[P, Ask[Page[T]]]) -> None:
        self._build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, client: ThreadCaller, owner: type) -> Callable[P, list[T]]: ...

    @overload
    def __get__(self, client: TaskCaller, owner: type) -> Callable[P, Awaitable[list[T]]]: ...

    def __get__(self, client: ThreadCaller | TaskCaller, owner: type) -> Callable[P, list[T] | Awaitable[list[T]]]:
        def method(*args: P.args, **kwargs: P.kwargs) -> list[T] | Awaitable[list[T]]:
            return client.ask_all(self._build(*args, **kwargs))

        return update_wrapper(method, self._build)


async def fetch_all(requests: Requests, first: Ask[Page[T]]) -> list[T]:
    page = await requests.send(first)
    items = list(page.items)
    while page.next is not None:
        page = await requests.send(replace(first, query={**first.query, "cursor": page.next}))
        items += page.items
    return items


class AdminCalls:
    """What both clients can ask of a server; admin.py has the arguments."""

    queues = listing(admin.queues)
    queue = call(admin.queue)
    create_queue = call(admin.create_queue)
    update_queue = call(admin.update_queue)
    delete_queue = call(admin.delete_queue)
    queue_stats = call(admin.queue_stats)
    queue_consumers = call(admin.queue_consumers)
    purge = call(admin.purge)
    pause = call(admin.pause)
    resume = call(admin.resume)
    messages = call(admin.messages)
    templates = listing(admin.templates)
    put_template = call(admin.put_template)
    drop_template = call(admin.drop_template)
    policies = listing(admin.policies)
    policy = call(admin.policy)
    put_policy = call(admin.put_policy)
    remove_policy = call(admin.remove_policy)
    import_rabbitmq = call(admin.import_rabbitmq)
    exchanges = listing(admin.exchanges)
    exchange = call(admin.exchange)
    declare_exchange = call(admin.declare_exchange)
    delete_exchange = call(admin.delete_exchange)
    bindings = listing(admin.bindings)
    bind = call(admin.bind)
    unbind = call(admin.unbind)
    groups = listing(admin.groups)
    group = call(admin.group)
    create_group = call(admin.create_group)
    delete_group = call(admin.delete_group)
    reset_group = call(admin.reset_group)
    commit = call(admin.commit)
    dead_letter_queues = listing(admin.dead_letter_queues)
    dead_letters = call(admin.dead_letters)
    redrive = call(admin.redrive)
    drop_dead_letters = call(admin.drop_dead_letters)
    drop_dead_letter = call(admin.drop_dead_letter)
    clients = listing(admin.clients)
    client = call(admin.client)
    disconnect_client = call(admin.disconnect_client)
    subscriptions = listing(admin.subscriptions)
    topics = listing(admin.topics)
    retained = call(admin.retained)
    delete_retained = call(admin.delete_retained)
    users = listing(admin.users)
    user = call(admin.user)
    create_user = call(admin.create_user)
    update_user = call(admin.update_user)
    delete_user = call(admin.delete_user)
    keys = listing(admin.keys)
    create_key = call(admin.create_key)
    delete_key = call(admin.delete_key)
    rules = listing(admin.rules)
    create_rule = call(admin.create_rule)
    delete_rule = call(admin.delete_rule)
    check_rule = call(admin.check_rule)
    overview = call(admin.overview)
    config = call(admin.config)
    config_diff = call(admin.config_diff)
    reload = call(admin.reload)
    log_level = call(admin.log_level)
    set_log_level = call(admin.set_log_level)
    backup = call(admin.backup)
    cluster_status = call(admin.cluster_status)
    health = call(admin.health)
    ready = call(admin.ready)
    version = call(admin.version)
    metrics = call(admin.metrics)
