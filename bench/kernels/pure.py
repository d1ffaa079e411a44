"""Loops compiled, and the same as plain Python: each in processes of its own."""

from __future__ import annotations

from collections.abc import Callable

from bench.measure import Comparison, Run, Series, Unit
from bench.process import environment, isolated
from bench.report import number_text
from penstock import kernels

_COMPILED_TIMES, _PURE_TIMES = 1000, 2

Loops = Callable[[int, bool], dict[str, tuple[float, int]]]
"""(times, with memory) -> of each loop: processor time a message, and the memory one call had allocated at most"""


def compared_with_pure(settings: Run, loops: Loops, call: str) -> list[Comparison]:
    compiled, pure = [], []
    for _ in range(settings.rounds):
        compiled.append(isolated(loops, settings.size(_COMPILED_TIMES), True))
        with environment({"PENSTOCK_PURE": "1"}):
            pure.append(isolated(loops, settings.size(_PURE_TIMES), False))
    subject = "compiled" if kernels.compiled() else "as installed (uncompiled)"
    return [
        Comparison(
            Series(f"{name}, {subject}", tuple(found[name][0] for found in compiled)),
            Series("as plain Python", tuple(found[name][0] for found in pure)),
            notes={f"allocated at most, {call}": number_text(compiled[0][name][1], Unit.BYTES)},
        )
        for name in compiled[0]
    ]
