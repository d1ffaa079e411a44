from __future__ import annotations

from penstock.broker.feed.stored import StoredBatch, StoredCache
from penstock.log.batch import encode, seal
from penstock.log.columns import Columns


def stored(offset: int, size: int = 1000) -> StoredBatch:
    batch = encode(Columns.of([bytes(size)]))
    seal(batch, offset, 1, 1000)
    return StoredBatch.of(batch)


def test_batches_at_hand_are_bounded_over_all_partitions() -> None:
    cache = StoredCache(limit_bytes=10_000, each=8)
    lists: list[list[StoredBatch]] = [[] for _ in range(20)]
    for number, cached in enumerate(lists):
        cache.keep(cached, stored(number))
    kept = [batch for cached in lists for batch in cached]
    assert sum(len(batch.batch.body) for batch in kept) <= 10_000
    assert kept[-1].first == 19, "the last one stays"


def test_of_one_partition_the_last_few_stay() -> None:
    cache, cached = StoredCache(each=3), list[StoredBatch]()
    for number in range(10):
        cache.keep(cached, stored(number))
    assert [batch.first for batch in cached] == [9, 8, 7]


def test_one_batch_is_kept_however_large() -> None:
    cache, cached = StoredCache(limit_bytes=10), list[StoredBatch]()
    assert cache.keep(cached, stored(0)) in cached


def test_small_batches_are_bounded_in_number() -> None:
    """As objects they take many times their bytes."""
    cache, lists = StoredCache(), [list[StoredBatch]() for _ in range(9_000)]
    for number, cached in enumerate(lists):
        cache.keep(cached, stored(number, 1))
    assert [] in lists
    assert lists[-1] != []


def test_what_a_partition_has_no_place_for_any_more_is_not_kept_elsewhere() -> None:
    cache, cached = StoredCache(each=2), list[StoredBatch]()
    for number in range(100):
        cache.keep(cached, stored(number))
    assert list(cache._order) == cached[::-1]
    assert cache._bytes == sum(batch.held_bytes for batch in cached)
