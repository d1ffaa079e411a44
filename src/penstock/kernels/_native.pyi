from array import array
from collections.abc import Callable, Sequence

from penstock.core.ports import Buffer

def crc32c(data: Buffer, value: int = 0, start: int = 0, stop: int = -1) -> int: ...
def first_bad(data: Buffer, rows: array[int], count: int) -> int: ...
def crc32c_ways() -> list[Callable[[Buffer, int], int]]: ...
def begin(view: memoryview, word: int) -> None: ...
def end(view: memoryview, word: int) -> None: ...
def store(view: memoryview, index: int, value: int) -> None: ...
def load_consistent(view: memoryview, out: array[int], word: int, first: int, count: int) -> bool: ...

class FrameEntry:
    log: int
    data: Buffer
    edit: object | None
    first: int
    end: int
    records: int
    first_timestamp: int
    max_timestamp: int
    sequence: int
    def __init__(
        self,
        log: int,
        data: Buffer,
        edit: object | None = None,
        first: int = 0,
        end: int = 0,
        records: int = 0,
        first_timestamp: int = 0,
        max_timestamp: int = 0,
        sequence: int = -1,
    ) -> None: ...

def entries_of(
    logs: array[int],
    batches: list[bytearray],
    firsts: array[int],
    counts: array[int],
    times: array[int],
    sequence: int,
) -> list[FrameEntry]: ...
def framed(entries: Sequence[FrameEntry], generation: int, sequence: int, durable: int) -> bytes: ...
