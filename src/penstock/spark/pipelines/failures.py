"""What ended a query, told from what Spark says of it: whose fault it is, and whether waiting will help."""

from __future__ import annotations

import re
from typing import Literal

FailureKind = Literal["user", "unavailable", "storage", "executor", "unknown"]

# The first that is found decides. A user's mistake stays one, however often it is tried.
_SIGNS: tuple[tuple[FailureKind, re.Pattern[str]], ...] = (
    (
        "user",
        re.compile(
            r"USER_RAISED_EXCEPTION|rule \w+ of \w+ does not hold|AnalysisException|ParseException|CAST_INVALID_INPUT"
            r"|CAST_OVERFLOW|DIVIDE_BY_ZERO|ARITHMETIC_OVERFLOW|INVALID_ARRAY_INDEX|SCHEMA_NOT_COMPATIBLE"
            r"|\b(?:InvalidArgument|InvalidSetting|NoSuchQueue|NotAuthorised|BadCredentials|PipelineKnown|Trimmed)\b"
            r"|DataLost|\b(?:pipeline-known|not-authorised|bad-credentials|no-such-queue|invalid-\w+|too-large): "
        ),
    ),
    # Before what follows, since a worker that does not come up "timed out" too.
    ("executor", re.compile(r"ExecutorLost|Python worker (?:exited|crashed|failed)|OutOfMemoryError|FetchFailed")),
    (
        "unavailable",
        re.compile(
            r"\b(?:ConnectionLost|GaveUp|QueueFull|DiskLow|StageGone|BeyondEnd)\b"
            r"|\b(?:queue-full|disk-low|paused|closed|stage-gone|too-many-attempts): "
            r"|FlightUnavailable|FlightTimedOut|Connection(?:Refused|Reset|Aborted)?Error|java\.net\.|UnknownHost"
            r"|[Tt]imed out|StatusCode\.UNAVAILABLE"
        ),
    ),
    ("storage", re.compile(r"java\.io\.|java\.nio\.file|FileSystemException|\bOSError\b|No space left|S3Exception")),
)
_PYTHON_ERROR = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?([A-Z]\w*(?:Error|Exception|[a-z])): (.+)$", re.MULTILINE)
# How Spark begins where it was told to hide the calls that led to an error, as by plainly() in a worker that goes on.
_HIDDEN_ERROR = re.compile(r"thrown from the Python worker: (?:[A-Za-z_][\w.]*\.)?([A-Z]\w*): (.+)$", re.MULTILINE)
# How the client of Spark Connect prints an answer that never came.
_RPC_ERROR = re.compile(r'terminated with:\s+status = StatusCode\.(\w+)\s+details = "(.*)"')
_STATE = re.compile(r"\s*SQLSTATE: \w+")
_MOST_CHARACTERS = 400


def failure_kind(text: str) -> FailureKind:
    return next((kind for kind, sign in _SIGNS if sign.search(text)), "unknown")


def failure_reason(text: str) -> str:
    """A line for people: what a Python program raised, if one did; else how Spark begins."""
    traceback = text.rpartition("Traceback (most recent call last)")[2] if "Traceback (most" in text else ""
    raised = _PYTHON_ERROR.search(traceback) or _HIDDEN_ERROR.search(text) or _RPC_ERROR.search(text)
    line = f"{raised[1]}: {raised[2]}" if raised else next((line for line in text.splitlines() if line.strip()), text)
    line = _STATE.sub("", " ".join(line.split()))
    return line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}…"
