"""What a reviewer looks at first: long files, long functions, comment share by folder, duplicates. Never a gate."""

from __future__ import annotations

import ast
import io
import shutil
import subprocess
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "tests", "bench", "scripts")
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    line: int
    length_lines: int


@dataclass(frozen=True, slots=True)
class Source:
    path: Path
    text: str

    @property
    def length_lines(self) -> int:
        return self.text.count("\n")

    @property
    def code_lines(self) -> int:
        """Lines that are not blank: what comments are a share of."""
        return sum(1 for line in self.text.splitlines() if line.strip())

    @property
    def comment_lines(self) -> int:
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        in_comments = {token.start[0] for token in tokens if token.type == tokenize.COMMENT}
        return len(in_comments | set(_docstring_lines(ast.parse(self.text))))

    def functions(self) -> Iterator[Function]:
        for node in ast.walk(ast.parse(self.text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield Function(node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1)


def _docstring_lines(tree: ast.Module) -> Iterator[int]:
    """Lines of strings that stand as statements: docstrings of modules, classes, functions and fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def sources() -> list[Source]:
    paths = (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))
    return [Source(path.relative_to(ROOT), path.read_text(encoding="utf-8")) for path in paths]


def print_long_files(files: list[Source]) -> None:
    print(f"files over {FILE_LINES_MAX} lines")
    for source in files:
        if source.length_lines > FILE_LINES_MAX:
            print(f"  {source.length_lines:5d}  {source.path}")


def print_long_functions(files: list[Source]) -> None:
    print(f"functions over {FUNCTION_LINES_MAX} lines")
    for source in files:
        for function in source.functions():
            if function.length_lines > FUNCTION_LINES_MAX:
                print(f"  {function.length_lines:5d}  {source.path}:{function.line} {function.name}")


def print_comment_shares(files: list[Source]) -> None:
    by_folder: dict[Path, list[Source]] = defaultdict(list)
    for source in files:
        by_folder[source.path.parent].append(source)
    print("comments and docstrings by folder, as a share of lines that are not blank (aim: 8 to 15 %)")
    for folder, members in sorted(by_folder.items()):
        lines = sum(source.code_lines for source in members)
        share = sum(source.comment_lines for source in members) / max(lines, 1)
        print(f"  {share:5.0%}  {lines:6d} lines  {folder}")


def print_duplicates() -> None:
    """With the program `duplicates`, where it is installed."""
    if (program := shutil.which("duplicates")) is not None:
        subprocess.run([program, "--repo", str(ROOT)], check=False)


def main() -> None:
    files = sources()
    print_long_files(files)
    print_long_functions(files)
    print_comment_shares(files)
    print_duplicates()


if __name__ == "__main__":
    main()
