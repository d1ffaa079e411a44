"""Queues and templates of the configuration, brought to the broker. What it cannot change is said, and stays."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from penstock.broker.broker import Broker
from penstock.broker.queues.queue import Queue
from penstock.core.errors import ExchangeDiffers, ExchangeLimit, InvalidArgument, InvalidSetting, NoSuchExchange
from penstock.core.types import Durability
from penstock.queues.exchange_types import Destination
from penstock.queues.names import DEFAULT_NAMESPACE
from penstock.queues.settings import change
from penstock.queues.templates import Template
from penstock.server.config import Config
from penstock.server.config_exchanges import parse_bindings, parse_exchange, without_bindings
from penstock.server.config_policies import parse_policy

logger = logging.getLogger("penstock.server.declared")

# No pattern of a template, so that no template takes its place.
_DURABILITY = ""


class Declared:
    """apply() may be called again with a changed configuration."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._given: dict[str, Template] = {}
        self._hidden: dict[str, Template] = {}
        """stored ones that the configuration has others for"""

    async def apply(self, config: Config) -> None:
        """Queues that are not there are declared; of others, the settings that are written are changed."""
        self.put_templates(config)
        await self._broker.policies.put_given([parse_policy(written) for written in config.policies])
        for written in config.exchanges:
            await self._declare_exchange(written)
        for written in config.queues:
            await self._declare(without_bindings(written))
            await self._bind(written)

    def put_templates(self, config: Config) -> None:
        self._put_templates(_default_durability(config.durability), _templates(config.broker.templates))

    def _put_templates(self, first: dict[str, Template], last: dict[str, Template]) -> None:
        """Not written to the data directory: what is taken out of the configuration is gone."""
        found = self._broker.declaring.templates
        stored = {**self._hidden, **{match: found[match] for match in found if match not in self._given}}
        self._given = {**first, **last}
        self._hidden = {match: template for match, template in stored.items() if match in self._given}
        self._broker.declaring.templates = {**first, **stored, **last}

    async def _declare_exchange(self, written: Mapping[str, object]) -> None:
        namespace, exchange = parse_exchange(written)
        try:
            if await self._broker.exchanges.declare(namespace, exchange):
                logger.info("exchange declared exchange=%s type=%s", exchange.name, exchange.type)
        except ExchangeDiffers as error:
            logger.warning("exchange not changed exchange=%s reason=%s", exchange.name, error)

    async def _bind(self, written: Mapping[str, object]) -> None:
        """One that will not do is said, and stays out: an exchange may be gone, or of another type than it was."""
        namespace = str(written.get("namespace", DEFAULT_NAMESPACE))
        queue = Destination("queue", self._broker.declaring.named(str(written["name"]), namespace))
        for source, key, arguments in parse_bindings(written):
            try:
                if await self._broker.exchanges.bind(namespace, source, queue, key, arguments):
                    logger.info("queue bound queue=%s exchange=%s key=%s", queue.name, source, key)
            except (NoSuchExchange, InvalidArgument, ExchangeLimit) as error:
                logger.warning("queue not bound queue=%s exchange=%s reason=%s", queue.name, source, error)

    async def _declare(self, written: Mapping[str, object]) -> None:
        declaring = self._broker.declaring
        namespace = str(written.get("namespace", DEFAULT_NAMESPACE))
        name = declaring.named(str(written["name"]), namespace)
        found = declaring.queues.get((namespace, name))
        if found is None:
            made = await self._broker.declare(written)
            logger.info("queue declared queue=%s partitions=%d", made.name, made.settings.partitions)
            return
        await declaring.keep(found)
        await self._change(found, {**written, "name": name})

    async def _change(self, queue: Queue, written: Mapping[str, object]) -> None:
        """Setting by setting where not all of them can change together."""
        if _is_changed(queue, written):
            try:
                await self._change_together(queue, written)
            except InvalidSetting:
                for key, value in written.items():
                    await self._change_one(queue, key, value)

    async def _change_one(self, queue: Queue, key: str, value: object) -> None:
        try:
            if _is_changed(queue, {key: value}):
                await self._change_together(queue, {key: value})
        except InvalidSetting as error:
            logger.warning("queue not changed queue=%s setting=%s reason=%s", queue.name, error.path, error.reason)

    async def _change_together(self, queue: Queue, written: Mapping[str, object]) -> None:
        await self._broker.declaring.change(queue, written)
        logger.info("queue changed queue=%s settings=%s", queue.name, ",".join(written.keys() - {"name", "namespace"}))


def _is_changed(queue: Queue, written: Mapping[str, object]) -> bool:
    try:
        return change(queue.own, written) != queue.own
    except InvalidSetting:
        return True


def _default_durability(durability: Durability) -> dict[str, Template]:
    if durability is Durability.COMMIT:
        return {}
    return {_DURABILITY: Template("*", {"durability": durability.name.lower()})}


def _templates(written: Iterable[Mapping[str, object]]) -> dict[str, Template]:
    found = {}
    for template in written:
        match, settings = template["match"], template.get("settings", {})
        assert isinstance(match, str)
        assert isinstance(settings, Mapping)
        found[match] = Template(match, settings)
    return found
