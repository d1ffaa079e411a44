"""Policies coming and going: a record first, then the queues that they are about. Stored settings stay as they are."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress

from penstock.broker.catalogue.configuration import Change, Configuration
from penstock.broker.catalogue.declarations import Declaring
from penstock.broker.queues.queue import Queue
from penstock.core.errors import InvalidArgument, NoSuchPolicy, NoSuchQueue
from penstock.queues.declared import NamespaceRecord, namespace_key
from penstock.queues.policies import MAX_POLICIES, Policy, PolicyRecord, policy, policy_key

logger = logging.getLogger("penstock.broker.policies")


class Policies:
    """Used from the loop."""

    def __init__(self, configuration: Configuration, declaring: Declaring) -> None:
        self._configuration, self._declaring = configuration, declaring
        self._turn = asyncio.Lock()
        self._given: set[tuple[str, str]] = set()
        """of the configuration"""
        self._hidden: dict[tuple[str, str], Policy] = {}
        """stored ones that the configuration has others for"""

    def all(self, namespace: str | None = None) -> list[Policy]:
        """By namespace and name."""
        found = self._declaring.policies
        return [found[key] for key in sorted(found) if namespace in (None, key[0])]

    def find(self, namespace: str, name: str) -> Policy:
        """NoSuchPolicy."""
        if (found := self._declaring.policies.get((namespace, name))) is None:
            raise NoSuchPolicy(name)
        return found

    async def put(self, record: PolicyRecord) -> bool:
        """Whether there was none of that name. InvalidArgument."""
        made = self.check(record)
        async with self._turn:
            self._refuse_given(record.namespace, record.name)
            is_new = (record.namespace, record.name) not in self._declaring.policies
            if is_new and len(self._declaring.policies) >= MAX_POLICIES:
                raise InvalidArgument(f"there are {MAX_POLICIES} policies, which is the limit: remove some first")
            await self._configuration.write(change_of(record))
            self._declaring.policies[record.namespace, record.name] = made
            await self.look_again(record.namespace)
        return is_new

    def check(self, record: PolicyRecord) -> Policy:
        """InvalidArgument for what put() would refuse."""
        return policy(record)

    async def remove(self, namespace: str, name: str) -> None:
        """NoSuchPolicy."""
        async with self._turn:
            self.find(namespace, name)
            self._refuse_given(namespace, name)
            await self._configuration.write((policy_key(namespace, name), None))
            self._declaring.policies.pop((namespace, name), None)
            await self.look_again(namespace)

    async def put_namespace(self, record: NamespaceRecord) -> None:
        """It is there from now on, though nothing may be in it."""
        await self._configuration.write((namespace_key(record.name), record))
        self._declaring.namespaces[record.name] = record

    async def remove_namespace(self, name: str) -> None:
        await self._configuration.write((namespace_key(name), None))
        self._declaring.namespaces.pop(name, None)

    async def put_given(self, records: Iterable[PolicyRecord]) -> None:
        """Those of the configuration, instead of the ones given before. They are written nowhere, and go before stored
        ones of their name."""
        async with self._turn:
            policies = self._declaring.policies
            for key in self._given:
                del policies[key]
            policies |= self._hidden
            made = {(record.namespace, record.name): policy(record) for record in records}
            self._hidden = {key: policies[key] for key in made if key in policies}
            self._given = set(made)
            policies |= made
            await self.look_again()

    async def look_again(self, namespace: str | None = None) -> None:
        """What queues do follows the policies there are now."""
        for queue in list(self._declaring.queues.values()):
            if namespace in (None, queue.namespace):
                await self._follow(queue)

    def _refuse_given(self, namespace: str, name: str) -> None:
        if (namespace, name) in self._given:
            raise InvalidArgument(f"policy {name!r} is in the configuration: change it there")

    async def _follow(self, queue: Queue) -> None:
        with suppress(NoSuchQueue):  # it went meanwhile
            await self._declaring.follow_policies(queue)


def change_of(record: PolicyRecord) -> Change:
    return policy_key(record.namespace, record.name), record
