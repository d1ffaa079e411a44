"""What is wrong with a declaration, each thing with its place. All of them are told at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.core.errors import ErrorCode, PenstockError
from penstock.core.marked_yaml import Mark


@dataclass(frozen=True, slots=True)
class Problem:
    """`path` is with dots, as in steps.hot.sql; `mark` None where the place in the file is not known."""

    path: str
    reason: str
    mark: Mark | None = None
    nearest: str | None = None

    def text(self, file: str) -> str:
        where = f"{file}:{self.mark.line}:{self.mark.column}" if self.mark else file
        advice = f"; did you mean {self.nearest}?" if self.nearest else ""
        return ": ".join(filter(None, [where, self.path, self.reason])) + advice


class BadPipeline(PenstockError):
    """Nothing was started."""

    code = ErrorCode.INVALID_SETTING

    def __init__(self, file: str, problems: Iterable[Problem]) -> None:
        self.file, self.problems = file, tuple(sorted(problems, key=_place))
        super().__init__("\n".join(self.lines()))

    def lines(self) -> list[str]:
        return [problem.text(self.file) for problem in self.problems]


@dataclass(slots=True)
class Problems:
    """Those of one file, in the order they were found."""

    file: str
    found: list[Problem] = field(default_factory=list)

    def add(self, path: str, reason: str, mark: Mark | None = None, nearest: str | None = None) -> None:
        self.found.append(Problem(path, reason, mark, nearest))

    def raise_any(self) -> None:
        """BadPipeline if there are some, sorted by their places."""
        if self.found:
            raise BadPipeline(self.file, self.found)


def _place(problem: Problem) -> tuple[int, int]:
    return (problem.mark.line, problem.mark.column) if problem.mark else (0, 0)
