"""What people write, as regular expressions for descriptions. Each admits no more than what reads it, sometimes less:
what is refused is decided there, with better words."""

from __future__ import annotations

# As core.units has them, but for what nobody writes: leading zeros, four units, centuries.
_PART = r"[1-9][0-9]{0,4}(\.[0-9]{1,3})?(ms|s|m|h)|[1-9][0-9]{0,3}(\.[0-9]{1,3})?d|[1-9][0-9]{0,2}w"
DURATION = rf"({_PART}){{1,3}}"
WHOLE_SECONDS = DURATION.replace("ms|s", "s")

# Characters that names may have; a level of a queue's path does not begin with $, and has no % here.
SEEN, LEVEL = r"[^\x00-\x1f\x7f|]", r"[^\x00-\x1f\x7f/+#$%][^\x00-\x1f\x7f/+#%]*"
LEVELS = rf"(?!amq\.){LEVEL}(/{LEVEL})*"
NAME = r"[^\x00-\x1f\x7f]+"
"""of a queue that is there"""
NEW_NAME = rf"(?!amq\.|\$queue/){NAME}"
LINE = r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]*"
"""text that is shown on one line"""
PLAIN = r"[^\x00-\x1f\x7f/+#|$][^\x00-\x1f\x7f/+#|]*"
FILTER = r"(\+|[^+#/\x00]*)(/(\+|[^+#/\x00]*))*(/#)?|#"

_MOST_OF_A_UNIT = 999
# With how many of them are one of the next larger.
_UNITS = (
    ("w", 604_800_000, 0),
    ("d", 86_400_000, 7),
    ("h", 3_600_000, 24),
    ("m", 60_000, 60),
    ("s", 1000, 60),
    ("ms", 1, 1000),
)
# With how many bytes they are.
_SIZES = (("B?", 1), *((f"{prefix}B", 1000**power) for power, prefix in enumerate(("[kK]", "M", "G"), 1)))
_SIZES += tuple((f"{prefix}iB", 1024**power) for power, prefix in enumerate(("[kK]", "M", "G"), 1))


def duration_pattern(limit_s: float, least_s: float = 0.0) -> str:
    """Durations up to the limit, as people write them: in one unit, or in up to three that follow each other, each less
    than one of the unit before it. At least a second, if that is the least."""
    found, units = [], _UNITS if least_s < 1 else _UNITS[:-1]
    for place, (unit, unit_ms, _) in enumerate(units):
        most = int(limit_s * 1000) // unit_ms
        if not most:
            continue
        found.append(f"{_up_to(most)}{unit}")
        if most > 1:
            rest = "".join(f"({_up_to(below - 1)}{smaller})?" for smaller, _, below in units[place + 1 : place + 3])
            found.append(rf"{_up_to(most - 1)}((\.[0-9]{{1,3}})?{unit}|{unit}{rest})")
    return "|".join(found)


def size_pattern(limit: int) -> str:
    """Sizes up to the limit, as people write them: bytes, or in one unit."""
    found = []
    for unit, size in _SIZES:
        most = min(limit // size, _MOST_OF_A_UNIT if size > 1 else 10**9)
        if most:
            found.append(f"{_up_to(most)}{unit}")
        if most > 1 and size > 1:
            found.append(rf"{_up_to(most - 1)}\.[0-9]{{1,3}}{unit}")
    return "|".join(found)


def _up_to(most: int) -> str:
    """Whole numbers from 1 to that, without leading zeros."""
    digits = str(most)
    found = [f"[1-9][0-9]{{{count}}}" if count else "[1-9]" for count in range(len(digits) - 1)]
    for at, digit in enumerate(digits):
        least, left = (1 if at == 0 else 0), len(digits) - at - 1
        if int(digit) > least:
            found.append(f"{digits[:at]}[{least}-{int(digit) - 1}]" + (f"[0-9]{{{left}}}" if left else ""))
    return f"({'|'.join([*found, digits])})"
