"""Topics against the filters of a subscription tree, and against a tree of dicts."""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator
from statistics import median

from bench.measure import Benchmark, Comparison, Run, Series, Unit, cpu_seconds, interleaved
from bench.report import number_text
from penstock.kernels.topics import SubscriptionTree

_FILTER_COUNTS = (10, 10_000, 1_000_000)
_TOPICS = 20_000
_TIMES = 10
_KINDS = {
    "exact": [b"devices/%d/temp"],
    "plus": [b"devices/%d/+"],
    "hash": [b"devices/%d/#"],
    "mixed": [b"devices/%d/temp", b"devices/%d/+", b"devices/%d/#", b"+/%d/temp"],
}


class DictTree:
    """As one would write it in Python: a dict for each level, the subscribers under the empty tuple."""

    def __init__(self) -> None:
        self.root: dict[object, object] = {}

    def add(self, topic_filter: bytes, subscriber: int) -> None:
        node = self.root
        for level in topic_filter.split(b"/"):
            child = node.setdefault(level, {})
            assert isinstance(child, dict)
            node = child
        found = node.setdefault((), [])
        assert isinstance(found, list)
        found.append(subscriber)

    def match(self, topic: bytes) -> list[int]:
        """No `$` topics here."""
        out: list[int] = []
        nodes = [self.root]
        for level in topic.split(b"/"):
            following = []
            for node in nodes:
                if rest := node.get(b"#"):
                    out += rest[()]  # type: ignore[index]  # a dict, and not asked, to be as fast as it can
                if child := node.get(level):
                    following.append(child)
                if child := node.get(b"+"):
                    following.append(child)
            nodes = following  # type: ignore[assignment]  # as above
        for node in nodes:
            out += node.get((), ())  # type: ignore[arg-type]  # as above
            if rest := node.get(b"#"):
                out += rest[()]  # type: ignore[index]  # as above
        return out


def run(settings: Run) -> list[Comparison]:
    counts = [count if count <= 10_000 else settings.size(count) for count in _FILTER_COUNTS]
    return [_compared(settings, kind, count) for count in counts for kind in _KINDS]


def _compared(settings: Run, kind: str, count: int) -> Comparison:
    tree, plain = SubscriptionTree(), DictTree()
    for number, topic_filter in enumerate(_filters(kind, count)):
        tree.add(topic_filter, number)
        plain.add(topic_filter, number)
    rng = random.Random(1)
    topics = [b"devices/%d/temp" % rng.randrange(-(-count // len(_KINDS[kind]))) for _ in range(_TOPICS)]
    found = sum(len(plain.match(topic)) for topic in topics)
    bulk = _Bulk(tree, topics)
    assert bulk.match() == found
    samples = interleaved(
        settings.rounds,
        {
            "tree": lambda: cpu_seconds(bulk.match, _TIMES),
            "plain": lambda: cpu_seconds(lambda: [plain.match(name) for name in topics], 1),
        },
    )
    return Comparison(
        Series(f"a topic among {count:,} filters, {kind}", tuple(sample / _TOPICS for sample in samples["tree"])),
        Series("a tree of dicts", tuple(sample / _TOPICS for sample in samples["plain"])),
        notes={
            "matches a second": number_text(found / median(samples["tree"]), Unit.COUNT),
            "memory a subscription": number_text(tree.memory_bytes() / count, Unit.BYTES),
        },
    )


def _filters(kind: str, count: int) -> Iterator[bytes]:
    """Spread over the kind's patterns, each device in all of them."""
    patterns = _KINDS[kind]
    for number in range(count):
        yield patterns[number % len(patterns)] % (number // len(patterns))


class _Bulk:
    def __init__(self, tree: SubscriptionTree, topics: list[bytes]) -> None:
        self._tree, self._source = tree, b"".join(topics)
        self._starts, self._ends, filled = array("i"), array("i"), 0
        for topic in topics:
            self._starts.append(filled)
            filled += len(topic)
            self._ends.append(filled)
        self._counts = array("i", [0]) * len(topics)

    def match(self) -> int:
        return self._tree.match_many(self._source, self._starts, self._ends, self._counts, array("q"))


BENCHMARK = Benchmark(
    "topics", "processor time of a topic against many filters, 20,000 topics in bulk", run, syncs=False
)
