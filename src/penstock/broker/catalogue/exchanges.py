"""Exchanges and bindings of all namespaces: what they are, and what the configuration has to say of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from penstock.broker.catalogue.configuration import Change
from penstock.queues.bindings import Bindings
from penstock.queues.exchange_records import BindingRecord, ExchangeRecord, binding_key, exchange_key
from penstock.queues.exchange_types import Binding, Destination
from penstock.queues.exchanges import Exchange, Exchanges, Removal


class ExchangeBook:
    """Used from the loop."""

    def __init__(self, bindings_of: Callable[[str], Bindings], is_volatile: Callable[[str, str], bool]) -> None:
        """`is_volatile`: whether a queue, by namespace and name, is in memory alone."""
        self._bindings_of, self._is_volatile = bindings_of, is_volatile
        self.spaces: dict[str, Exchanges] = {}
        self._binding: Counter[tuple[str, str]] = Counter()
        """by namespace and name, exchanges to which a binding is on its way: they do not go with the last one now"""

    def of(self, namespace: str) -> Exchanges:
        found = self.spaces.get(namespace)
        if found is None:
            found = self.spaces[namespace] = Exchanges(namespace, self._bindings_of(namespace))
        return found

    def has_some(self, namespace: str) -> bool:
        """Whether somebody has declared or bound one there."""
        space = self.spaces.get(namespace)
        return space is not None and (bool(space.bindings) or any(not each.is_predeclared for each in space))

    # A binding that is being written

    def begin(self, namespace: str, binding: Binding) -> None:
        self._binding[namespace, binding.source] += 1

    def end(self, namespace: str, binding: Binding) -> None:
        self._binding[namespace, binding.source] -= 1
        if not self._binding[namespace, binding.source]:
            del self._binding[namespace, binding.source]

    # What goes with what

    def removal(
        self,
        namespace: str,
        *,
        exchange: str | None = None,
        queue: str | None = None,
        bindings: Iterable[Binding] = (),
    ) -> Removal:
        """See Exchanges.without()."""
        staying = [name for space, name in self._binding if space == namespace]
        return self.of(namespace).without(exchange=exchange, queue=queue, bindings=bindings, staying=staying)

    def of_queue(self, namespace: str, name: str) -> Removal:
        """What goes with a queue."""
        return self.removal(namespace, queue=name) if namespace in self.spaces else Removal([], [])

    def remove(self, namespace: str, removal: Removal) -> None:
        if removal.exchanges or removal.bindings:
            self.of(namespace).remove(removal)

    def changes(self, namespace: str, removal: Removal) -> list[Change]:
        """Records that go. To be asked before they are gone."""
        exchanges = [exchange_key(namespace, each.name) for each in removal.exchanges if each.is_durable]
        bindings = [binding_key(namespace, each.number) for each in removal.bindings if self.is_stored(namespace, each)]
        return [(key, None) for key in exchanges + bindings]

    def is_stored(self, namespace: str, binding: Binding) -> bool:
        """What a durable exchange has with something durable."""
        space, (kind, name) = self.of(namespace), binding.destination
        if not space.find(binding.source).is_durable:
            return False
        return not self._is_volatile(namespace, name) if kind == "queue" else space.find(name).is_durable

    # Records

    def adopt(self, record: ExchangeRecord) -> None:
        self.of(record.namespace).declare(
            Exchange(
                record.name,
                record.type,
                True,
                record.auto_delete,
                record.internal,
                record.alternate,
                record.arguments,
            )
        )

    def adopt_binding(self, record: BindingRecord, queue: str | None) -> None:
        """`queue` is the one of the record's incarnation."""
        if queue is not None:
            destination = Destination("queue", queue)
        else:
            destination = Destination("exchange", record.exchange or "")
        self.of(record.namespace).bind(Binding(record.number, record.source, destination, record.key, record.arguments))


def record_of(namespace: str, exchange: Exchange) -> ExchangeRecord:
    return ExchangeRecord(
        namespace,
        exchange.name,
        exchange.type,
        exchange.auto_delete,
        exchange.internal,
        exchange.alternate,
        dict(exchange.arguments),
    )


def binding_record(namespace: str, binding: Binding, incarnation: int | None) -> BindingRecord:
    """`incarnation` of the queue, None for an exchange."""
    exchange = binding.destination.name if incarnation is None else None
    return BindingRecord(
        namespace, binding.number, binding.source, incarnation, exchange, binding.key, dict(binding.arguments)
    )
