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
from penstock.queues.policies import MAX_POLICIES, Policy, PolicyRecord, policy, policy_key

logger = logging.getLogger("penstock.broker.policies")


class Policies:
    """Used from the loop."""

    def __init__(self, configuration: Configuration, declaring: Declaring) -> None:
        self._configuration, self._declaring = configuration, declaring
        self._turn = asyncio.Lock()

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
            await self._configuration.write((policy_key(namespace, name), None))
            self._declaring.policies.pop((namespace, name), None)
            await self.look_again(namespace)

    def put_given(self, records: Iterable[PolicyRecord]) -> None:
        """Those of the configuration, which are written nowhere: they go before stored ones of their name."""
        for record in records:
            self._declaring.policies[record.namespace, record.name] = policy(record)

    async def look_again(self, namespace: str | None = None) -> None:
        """What queues do follows the policies there are now."""
        for queue in list(self._declaring.queues.values()):
            if namespace in (None, queue.namespace):
                await self._follow(queue)

    async def _follow(self, queue: Queue) -> None:
        with suppress(NoSuchQueue):  # it went meanwhile
            await self._declaring.follow_policies(queue)


def change_of(record: PolicyRecord) -> Change:
    return policy_key(record.namespace, record.name), record
