"""What a turn brought of all connections, looked at as a whole: which regions hold what, who published to which topic,
and answers for everyone in one buffer.

Rows are those of mqtt_scan, region after region. Columns are int32."""

from __future__ import annotations

from array import array

from penstock.core.errors import InvalidArgument
from penstock.kernels import mqtt_columns as names

_PUBLISH, _HOP_BY_HOP = names.PUBLISH, names.HOP_BY_HOP
PUBLISHES, ACKNOWLEDGES, IS_SPECIAL = 1, 2, 4
"""What a region holds: publishes; acknowledgements; publishes of QoS 2, to be retained, or with what is
between client and server only."""
_PUBLISHES, _ACKNOWLEDGES, _IS_SPECIAL = PUBLISHES, ACKNOWLEDGES, IS_SPECIAL
_PUBACK_BYTES = 4


def bounds(regions: array[int], firsts: array[int]) -> int:
    """firsts[r] becomes the number of rows before region r; it has one word more than there are regions."""
    row = 0
    for region in range(len(firsts)):
        while row < len(regions) and regions[row] < region:
            row += 1
        firsts[region] = row
    return 0


def contents(heads: array[int], present: array[int], regions: array[int], out: array[int]) -> int:
    """What each region holds goes to `out`, zeros on entry."""
    for row in range(len(heads)):
        region = regions[row]
        if heads[row] >> 4 == _PUBLISH:
            out[region] |= _PUBLISHES
            # QoS 2, or RETAIN
            if heads[row] & 5 or present[row] & _HOP_BY_HOP:
                out[region] |= _IS_SPECIAL
        else:
            out[region] |= _ACKNOWLEDGES
    return 0


def pick_publishes(heads: array[int], regions: array[int], wanted: array[int], out: array[int]) -> int:
    """Rows of PUBLISHes of regions that are `wanted`, in order; how many."""
    count = 0
    for row in range(len(heads)):
        if heads[row] >> 4 == _PUBLISH and wanted[regions[row]]:
            out[count] = row
            count += 1
    return count


def pairs(regions: array[int], topics: array[int], seen: array[int], rows: array[int]) -> int:
    """Rows with a topic that no row of their region has before them; how many. seen has -1 for every topic."""
    count = 0
    for i in range(len(regions)):
        if seen[topics[i]] != regions[i]:
            seen[topics[i]] = regions[i]
            rows[count] = i
            count += 1
    return count


def spread(values: array[int], regions: array[int], out: array[int]) -> int:
    """out[i] ('q') = values[regions[i]] ('q')."""
    for i in range(len(regions)):
        out[i] = values[regions[i]]
    return 0


def answers(
    regions: array[int],
    packet_ids: array[int],
    out: bytearray,
    owners: array[int],
    starts: array[int],
    stops: array[int],
) -> int:
    """PUBACK for every row with a packet identifier. Those of a region lie behind each other: owners[n] is the n-th
    such region, its bytes are out[starts[n]:stops[n]]. How many regions there are. `out` has 4 bytes a row."""
    if len(out) < _PUBACK_BYTES * len(regions):
        raise InvalidArgument("there is less room than answers")
    count, at = 0, 0
    for i in range(len(regions)):
        if packet_ids[i] == 0:
            continue
        if count == 0 or owners[count - 1] != regions[i]:
            owners[count], starts[count] = regions[i], at
            count += 1
        out[at], out[at + 1] = 0x40, 2
        out[at + 2], out[at + 3] = packet_ids[i] >> 8 & 255, packet_ids[i] & 255
        at += _PUBACK_BYTES
        stops[count - 1] = at
    return count


def shift(values: array[int], by: int) -> int:
    """Add a number to each."""
    for i in range(len(values)):
        values[i] += by
    return 0
