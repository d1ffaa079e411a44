"""What can be wrong with a question."""

from __future__ import annotations

from penstock.core.errors import ErrorCode, PenstockError


class SqlFailed(PenstockError):
    """The query is wrong, or took more than it may. The text is DuckDB's, with advice."""

    code = ErrorCode.INVALID_ARGUMENT


class SqlNotInstalled(PenstockError):
    code = ErrorCode.PLATFORM

    def __init__(self) -> None:
        super().__init__("questions in SQL need DuckDB and pyarrow: pip install 'penstock[sql]'")
