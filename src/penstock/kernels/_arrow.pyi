from collections.abc import Callable

from penstock.core.ports import Buffer

class Exported:
    def __init__(self, data: Buffer, numbers: bytes, verify: bool, unpack: Callable[[Buffer], Buffer]) -> None: ...
    @property
    def address(self) -> int: ...
