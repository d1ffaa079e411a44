"""Brokers side by side under one load: warmed up, and what they acknowledge counted in their stores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

from bench.measure import Run
from bench.mqtt.link import PeerFailed
from bench.mqtt.load import Outcome
from bench.mqtt.many import Many, Said
from bench.mqtt.peers import Broker, Start, running
from bench.sparse.stores import Store, store_of

# About 1.5 GB. To empty a queue takes 20 ms, so five thousand are not emptied after every round.
_MOST_HELD = 5_000_000


class Loads:
    """All brokers have the same queues, and every load goes to all of them. Brokers that the generator cannot speak to
    are there and left alone."""

    def __init__(self, many: Many, brokers: list[Broker], queues: int, is_consumed: bool, is_tls: bool) -> None:
        self.brokers = brokers
        self._many, self._queues, self._is_consumed, self._is_tls = many, queues, is_consumed, is_tls
        self._stores: dict[str, Store] = {}
        for broker in brokers:
            if (store := store_of(broker)) is not None:
                self._stores[broker.name] = store
                store.prepare(queues, is_consumed)
                self._warm_up(broker)

    def run(self, shape: Mapping[str, int], broker: Broker) -> tuple[Said, Outcome]:
        """A round. PeerFailed if the broker does not hold what it acknowledged."""
        [found] = self._checked([shape], broker)
        return found

    def together(self, shapes: Sequence[Mapping[str, int]], broker: Broker) -> list[Said]:
        """Rounds of several generators at the same time."""
        return [said for said, _ in self._checked(shapes, broker)]

    def _checked(self, shapes: Sequence[Mapping[str, int]], broker: Broker) -> list[tuple[Said, Outcome]]:
        store = self._stores[broker.name]
        if (held := store.held()) > _MOST_HELD:
            store.empty()
            held = store.held()
        with ThreadPoolExecutor(len(shapes)) as pool:
            found = list(pool.map(partial(self._run, broker), shapes))
        acknowledged = sum(outcome.messages for _, outcome in found)
        _check_held(store.held() - held, acknowledged, broker, store)
        return found

    def outcome(self, shape: Mapping[str, int], broker: Broker) -> Outcome:
        return self.run(shape, broker)[1]

    def close(self) -> None:
        for store in self._stores.values():
            store.close()

    def _warm_up(self, broker: Broker) -> None:
        """A message through each queue, which makes those that are not there."""
        shape = {"publishers": 1, "consumers": int(self._is_consumed), "window": 100}
        self._run(broker, shape | {"messages": self._queues})

    def _run(self, broker: Broker, shape: Mapping[str, int]) -> tuple[Said, Outcome]:
        store = self._stores[broker.name]
        speech = f"{store.speech}s" if self._is_tls else store.speech
        return self._many.run(broker, speech=speech, topic=store.topic, topics=self._queues, **shape)


def _check_held(more: int, acknowledged: int, broker: Broker, store: Store) -> None:
    if store.keeps and more != acknowledged:
        raise PeerFailed(f"{broker.name} acknowledged {acknowledged:,} messages and holds {more:,} more")


@contextmanager
def side_by_side(
    settings: Run,
    many: Many,
    name: str,
    *starts: Start,
    queues: int = 1,
    is_consumed: bool = False,
    is_tls: bool = False,
) -> Iterator[Loads]:
    """Fresh brokers in a directory of that name; the first must be there, of the others those that are installed."""
    directory = settings.directory / name
    directory.mkdir()
    with running(directory, *starts) as brokers:
        loads = Loads(many, brokers, queues, is_consumed, is_tls)
        try:
            yield loads
        finally:
            loads.close()
