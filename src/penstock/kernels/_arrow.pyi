from collections.abc import Callable

import pyarrow as pa

from penstock.core.ports import Buffer

class Exported:
    def __init__(
        self,
        batches: list[Buffer],
        numbers: bytes,
        schema: pa.Schema,
        verify: bool,
        unpack: Callable[[Buffer], Buffer],
    ) -> None: ...
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...
