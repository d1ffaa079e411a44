from __future__ import annotations

from array import array
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.kernels import builds

from penstock.core.errors import InvalidArgument

LEVELS = st.sampled_from(["", "a", "b", "abcdefghi", "$s", "ü"])
TOPICS = st.lists(LEVELS, min_size=1, max_size=4).map("/".join).filter(bool)
FILTERS = (
    st.tuples(st.lists(st.one_of(LEVELS, st.just("+")), min_size=0, max_size=4), st.booleans())
    .map(lambda parts: "/".join([*parts[0], *(["#"] if parts[1] else [])]))
    .filter(bool)
)


def matches(filter: str, topic: str) -> bool:
    """The rules of MQTT, naively."""
    if topic.startswith("$") and filter[0] in "+#":
        return False
    wanted, levels = filter.split("/"), topic.split("/")
    if wanted[-1] == "#":
        wanted.pop()
        levels = levels[: len(wanted)]
    return len(wanted) == len(levels) and all(one in ("+", level) for one, level in zip(wanted, levels, strict=True))


def walk(kernel: ModuleType, tree: object, filter: bytes, budget: int = 3) -> list[int]:
    starts, ends, at = array("i"), array("i"), 0
    for level in filter.split(b"/"):
        starts.append(at)
        ends.append(at + len(level))
        at += len(level) + 1
    stack, found = kernel.begin(), list[int]()
    while stack[0] > 2:
        out = array("q", bytes(8 * budget))
        count = tree.advance(filter, starts, ends, stack, budget, out)  # type: ignore[attr-defined]  # either build
        found += out[:count]
    return found


@pytest.mark.parametrize("kernel", builds("retained_tree"))
@given(steps=st.lists(st.tuples(TOPICS, st.booleans()), max_size=40), filters=st.lists(FILTERS, min_size=1, max_size=5))
@settings(max_examples=100, deadline=None)
def test_the_tree_has_what_a_table_would_have(
    kernel: ModuleType, steps: list[tuple[str, bool]], filters: list[str]
) -> None:
    tree, table = kernel.RetainedTree(7), dict[str, int]()
    for offset, (topic, is_set) in enumerate(steps):
        data = b"--" + topic.encode()
        if is_set:
            tree.put(data, 2, len(data), offset, 10 + offset, 0)
            table[topic] = offset
        else:
            assert tree.drop(data, 2, len(data), offset) == (table.pop(topic, None) is not None)
    assert len(tree) == len(table)
    assert tree.message_bytes() == sum(10 + offset for offset in table.values())
    for topic, offset in table.items():
        assert tree.find(topic.encode()) == offset
    for filter in filters:
        expected = sorted(offset for topic, offset in table.items() if matches(filter, topic))
        assert sorted(walk(kernel, tree, filter.encode())) == expected


@pytest.mark.parametrize("kernel", builds("retained_tree"))
def test_an_older_record_changes_nothing(kernel: ModuleType) -> None:
    tree = kernel.RetainedTree()
    tree.put(b"a", 0, 1, 5, 10, 0)
    tree.put(b"a", 0, 1, 3, 99, 0)
    assert not tree.drop(b"a", 0, 1, 4)
    assert (tree.find(b"a"), tree.message_bytes()) == (5, 10)


@pytest.mark.parametrize("kernel", builds("retained_tree"))
def test_a_pinned_tree_frees_no_nodes_until_it_is_unpinned(kernel: ModuleType) -> None:
    tree = kernel.RetainedTree()
    for number in range(10):
        tree.put(b"a/%d" % number, 0, 3, number, 1, 0)
    tree.pin()
    starts, ends, stack, out = array("i", [0, 2]), array("i", [1, 3]), kernel.begin(), array("q", bytes(8 * 4))
    found = list(out[: tree.advance(b"a/#", starts, ends, stack, 4, out)])
    for number in range(10):
        assert tree.drop(b"a/%d" % number, 0, 3, 100)
    tree.put(b"b", 0, 1, 100, 1, 0)
    while stack[0] > 2:
        found += out[: tree.advance(b"a/#", starts, ends, stack, 4, out)]
    assert found == [9, 8]
    tree.unpin()
    assert walk(kernel, tree, b"#") == [100]
    before = tree.memory_bytes()
    for number in range(10):
        tree.put(b"a/%d" % number, 0, 3, 200 + number, 1, 0)
    assert tree.memory_bytes() < before + 200


@pytest.mark.parametrize("kernel", builds("retained_tree"))
def test_memory_comes_back_into_use(kernel: ModuleType) -> None:
    tree = kernel.RetainedTree()
    sizes = []
    for offset in range(0, 4000, 2):
        topic = b"some/topic/%d" % offset
        tree.put(topic, 0, len(topic), offset, 1, 0)
        assert tree.drop(topic, 0, len(topic), offset + 1)
        sizes.append(tree.memory_bytes())
    assert sizes[-1] < 2000 and len(tree) == tree.message_bytes() == 0


@pytest.mark.parametrize("kernel", builds("retained_tree"))
def test_too_many_levels_are_refused(kernel: ModuleType) -> None:
    tree = kernel.RetainedTree()
    tree.put(b"/" * 255, 0, 255, 1, 1, 0)
    assert walk(kernel, tree, b"/" * 255) == walk(kernel, tree, b"/#") == walk(kernel, tree, b"+/#") == [1]
    with pytest.raises(InvalidArgument, match="256 levels"):
        tree.put(b"/" * 256, 0, 256, 1, 1, 0)
    with pytest.raises(InvalidArgument):
        tree.put(b"abc", 0, 4, 1, 1, 0)


@pytest.mark.parametrize("kernel", builds("retained_tree"))
def test_what_expired_is_found_in_slices(kernel: ModuleType) -> None:
    tree, now_s = kernel.RetainedTree(), 1_800_000_000
    for number in range(20):
        topic = b"t/%d" % number
        tree.put(topic, 0, len(topic), number, 1, [0, now_s, now_s + 1, 2**40][number % 4])
    first, found = 0, list[bytes]()
    while True:
        out = array("i", bytes(4 * 6))
        count = tree.expired(first, 5, now_s, out)
        found += [tree.topic_of(node) for node in out[1 : count + 1]]
        first = out[0]
        if not first:
            break
    assert sorted(found) == sorted(b"t/%d" % number for number in range(1, 20, 4))
