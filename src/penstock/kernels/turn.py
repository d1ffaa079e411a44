"""What a turn brought of all connections, looked at as a whole: which regions hold what, who may publish to which
topic, and answers for everyone in one buffer.

Rows are those of mqtt_scan, region after region. Columns are int32 if nothing else is said. Columns by slot have a word
for every connection that the reactor can have; `slots` and `generations` name the connection of each region."""

from __future__ import annotations

from array import array
from typing import TypeAlias

from penstock.kernels import mqtt_columns as names

_PUBLISH, _HAS_ALIAS = names.PUBLISH, names.HAS_ALIAS
PUBLISHES, ACKNOWLEDGES, HAS_QOS_2, HAS_ALIASES = 1, 2, 4, 8
"""What a region holds: publishes; acknowledgements; publishes of QoS 2; publishes with an alias."""
_PUBLISHES, _ACKNOWLEDGES, _HAS_QOS_2, _HAS_ALIASES = PUBLISHES, ACKNOWLEDGES, HAS_QOS_2, HAS_ALIASES
IS_OVER, IS_LIMITED, ARE_APART = 1, 2, 4
"""what count_in() says"""
_IS_OVER, _IS_LIMITED, _ARE_APART = IS_OVER, IS_LIMITED, ARE_APART
_ANSWER_BYTES = 4
_ZERO = array("i", [0])
Answers: TypeAlias = "tuple[bytearray, array[int], array[int], array[int], array[int], array[int]]"
"""their bytes; slots, generations, starts, stops and counts of those who get them"""
GRANT_WORDS = 2
"""of an entry in a table of grants"""
_GRANT_WORDS, _GENERATION_BITS, _PROBES = GRANT_WORDS, 30, 4
_MIX = 0x9E3779B97F4A7C15
_LOW_64 = 0xFFFFFFFFFFFFFFFF


def bounds(regions: array[int], firsts: array[int]) -> int:
    """firsts[r] becomes the number of rows before region r; it has one word more than there are regions."""
    row = 0
    for region in range(len(firsts)):
        while row < len(regions) and regions[row] < region:
            row += 1
        firsts[region] = row
    return 0


def contents(heads: array[int], present: array[int], regions: array[int], out: array[int]) -> int:
    """What each region holds goes to `out`, zeros on entry. What any of them does."""
    every = 0
    for row in range(len(heads)):
        what = _ACKNOWLEDGES
        if heads[row] >> 4 == _PUBLISH:
            what = _PUBLISHES
            if heads[row] & 4:
                what |= _HAS_QOS_2
            if present[row] & _HAS_ALIAS:
                what |= _HAS_ALIASES
        out[regions[row]] |= what
        every |= what
    return every


def publishers(contents: array[int], slots: array[int], versions: memoryview, out: array[int]) -> int:
    """out[r] = 1 for regions with publishes of clients that are let in (their version is not 0); how many these are."""
    count = 0
    for i in range(len(contents)):
        if contents[i] & _PUBLISHES and versions[slots[i]]:
            out[i] = 1
            count += 1
    return count


def pick_publishes(heads: array[int], regions: array[int], wanted: array[int], out: array[int]) -> int:
    """Rows of PUBLISHes of regions that are `wanted`, in order; how many."""
    count = 0
    for row in range(len(heads)):
        if heads[row] >> 4 == _PUBLISH and wanted[regions[row]]:
            out[count] = row
            count += 1
    return count


def pick_regions(regions: array[int], wanted: array[int], out: array[int]) -> int:
    """Rows of regions that are `wanted`, in order; how many."""
    count = 0
    for row in range(len(regions)):
        if wanted[regions[row]]:
            out[count] = row
            count += 1
    return count


def count_in(
    regions: array[int],
    heads: bytes,
    slots: array[int],
    unanswered: memoryview,
    maxima: memoryview,
    received: memoryview,
    is_limited: memoryview,
    namespaces: memoryview,
    places: memoryview,
    counts: array[int],
    over: array[int],
    places_of_rows: array[int],
) -> int:
    """Publishes of QoS 1 of each region to `counts`, which is zeros on entry, and to those by slot that are unanswered;
    all of its publishes to `received` ('q'). Regions with more than their maximum are marked `over` and not counted.
    The places by slot ('q') to those of the rows. What has to be looked at: IS_OVER, IS_LIMITED if the rate of one of
    those with rows is, and ARE_APART if they are of more than one namespace. `heads` are the first bytes of the rows'
    packets."""
    found = 0
    for i in range(len(regions)):
        slot = slots[regions[i]]
        if heads[i] & 6 == 2:
            counts[regions[i]] += 1
        if is_limited[slot]:
            found |= _IS_LIMITED
        if namespaces[slot] != namespaces[slots[regions[0]]]:
            found |= _ARE_APART
        places_of_rows[i] = places[slot]
    for i in range(len(slots)):
        if unanswered[slots[i]] + counts[i] > maxima[slots[i]]:
            over[i] = 1
            found |= _IS_OVER
            counts[i] = 0
        else:
            unanswered[slots[i]] += counts[i]
    for i in range(len(regions)):
        if not over[regions[i]]:
            received[slots[regions[i]]] += 1
    return found


def mark_topics(regions: array[int], topics: array[int], marks: bytes, out: array[int]) -> int:
    """out[r] = 1 for regions with a row whose topic is marked; in how many rows that is so."""
    count = 0
    for i in range(len(regions)):
        if marks[topics[i]]:
            out[regions[i]] = 1
            count += 1
    return count


def ungranted(
    regions: array[int],
    topics: array[int],
    slots: array[int],
    generations: array[int],
    numbers: array[int],
    seen: array[int],
    table: array[int],
    rows: array[int],
) -> int:
    """Rows whose pair of connection and topic is not in the table of grants, the first of each pair; how many.
    numbers[t] names topic t for ever; seen has -1 for every topic. `table` ('q') has a power of two of entries."""
    count = 0
    mask = len(table) // _GRANT_WORDS - 1
    for i in range(len(regions)):
        topic, region = topics[i], regions[i]
        if seen[topic] == region:
            continue
        seen[topic] = region
        who = slots[region]  # first: C would shift 32 bits
        who = who << _GENERATION_BITS | generations[region]
        at = _place(who, numbers[topic]) & mask
        found = 0
        for _ in range(_PROBES):
            if table[_GRANT_WORDS * at] == who and table[_GRANT_WORDS * at + 1] == numbers[topic]:
                found = 1
                break
            at = (at + 1) & mask
        if not found:
            rows[count] = i
            count += 1
    return count


def grant(slot: int, generation: int, number: int, table: array[int]) -> int:
    """Remember that the connection may publish to the topic of this number; another one may be forgotten for it."""
    mask = len(table) // _GRANT_WORDS - 1
    who = slot << _GENERATION_BITS | generation
    first = _place(who, number) & mask
    at = first
    for _ in range(_PROBES):
        if table[_GRANT_WORDS * at] < 0:
            break
        at = (at + 1) & mask
    else:
        at = first
    table[_GRANT_WORDS * at] = who
    table[_GRANT_WORDS * at + 1] = number
    return 0


def _place(who: int, number: int) -> int:
    """Where to look first."""
    mixed = ((who * 31 + number) * _MIX) & _LOW_64
    return mixed >> 33


def answers(
    regions: array[int], heads: bytes, packet_ids: array[int], slots: array[int], generations: array[int]
) -> Answers:
    """PUBACK or PUBREC for every row with a packet identifier. Those of a region lie behind each other: the n-th such
    region is of the connection with the n-th slot and generation, its bytes go from starts[n] to stops[n] and have
    counts[n] PUBACKs."""
    count, last = 0, -1
    owners = 0
    for i in range(len(regions)):
        if packet_ids[i]:
            count += 1
            owners += regions[i] != last
            last = regions[i]
    data, made = bytearray(_ANSWER_BYTES * count), _ZERO * owners
    slots_of, generations_of, starts_of, stops_of, counts_of = made[:], made[:], made[:], made[:], made
    out, to, by, starts, stops, counts = data, slots_of, generations_of, starts_of, stops_of, counts_of
    count, at, last = -1, 0, -1
    for i in range(len(regions)):
        if packet_ids[i] == 0:
            continue
        if last != regions[i]:
            last = regions[i]
            count += 1
            to[count], by[count], starts[count] = slots[last], generations[last], at
        out[at], out[at + 1] = 0x50, 2
        if heads[i] & 6 == 2:
            out[at] = 0x40
            counts[count] += 1
        out[at + 2], out[at + 3] = packet_ids[i] >> 8 & 255, packet_ids[i] & 255
        at += _ANSWER_BYTES
        stops[count] = at
    return data, slots_of, generations_of, starts_of, stops_of, counts_of


def owe(slots: array[int], waiting: memoryview, owed: memoryview, direct: array[int]) -> int:
    """Answers to these connections are under way: owed[slot] grows where nothing of the connection is waiting, and
    direct[i] is 1 there. How many others there are."""
    others = 0
    for i in range(len(slots)):
        if waiting[slots[i]]:
            others += 1
        else:
            owed[slots[i]] += 1
            direct[i] = 1
    return others


def settle(
    slots: array[int],
    generations: array[int],
    counts: array[int],
    direct: array[int],
    current: memoryview,
    unanswered: memoryview,
    owed: memoryview,
    waiting: memoryview,
    behind: array[int],
) -> int:
    """The answers that are `direct` leave: so many publishes of each are no longer unanswered, and a turn less is owed.
    The places of those who wait behind it, and whose turn it is now, go to `behind`; how many. Connections that are
    gone, as their generation is not the current one, are passed over."""
    count = 0
    for i in range(len(slots)):
        slot = slots[i]
        if not direct[i] or current[slot] != generations[i]:
            continue
        unanswered[slot] = max(0, unanswered[slot] - counts[i])
        owed[slot] -= 1
        if waiting[slot] and not owed[slot]:
            behind[count] = i
            count += 1
    return count


def shift(values: array[int], by: int) -> int:
    """Add a number to each."""
    for i in range(len(values)):
        values[i] += by
    return 0
