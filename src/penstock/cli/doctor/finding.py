"""What a check of `penstock doctor` found."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field


class Verdict(enum.Enum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One look at one thing: `facts` for programs, `text` says what was found and, if need be, what to do."""

    name: str
    verdict: Verdict
    text: str
    facts: dict[str, object] = field(default_factory=dict)
