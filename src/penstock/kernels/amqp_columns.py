"""Names for what the kernels of AMQP 0.9.1 fill: columns of scanned rows, why a scan ended, reply codes."""

from __future__ import annotations

# Columns of a row, int32 each. Positions are those of the scanned buffer.
COLUMNS = 22
KIND, CHANNEL, FLAGS, PRESENT = range(4)
"""FLAGS are those of the method, below. PRESENT are the property flags of a PUBLISH as it has them."""
ROUTE_START, EXCHANGE_END, ROUTE_END = range(4, 7)
"""From the length byte of the exchange's name to the end of the routing key: one span that names both, and that is
written again as it is by amqp_deliver. The key's length byte is at EXCHANGE_END."""
PROPS_START, PROPS_END, HEADERS_START, HEADERS_END = range(7, 11)
"""The properties begin with their flags; the byte before them is the last one of the body's size, which means nothing
any more: `mark_native` writes the kind of the column NATIVE over it. The headers are without their length, and empty
where there are none."""
EXPIRATION_AT, REPLY_TO_AT, USER_ID_AT = range(11, 14)
"""Where the property's length byte is; -1 if it is not there."""
PRIORITY, DELIVERY_MODE = range(14, 16)
"""-1 if it is not there."""
BODY_START, BODY_END = range(16, 18)
TAG_LOW, TAG_HIGH = range(18, 20)
"""The two halves of a delivery tag."""
REGION = 20
"""Number of the region that the row is of, among those that were scanned together."""
ROW_END = 21
"""Where the next row begins."""

# Kinds of rows.
PUBLISH, ACK, NACK, REJECT, HEARTBEAT = range(1, 6)

# Bits of FLAGS.
MANDATORY, IMMEDIATE, MULTIPLE, REQUEUE = 1, 2, 4, 8

# Bits of PRESENT.
HAS_CONTENT_TYPE, HAS_CONTENT_ENCODING, HAS_HEADERS, HAS_DELIVERY_MODE = 0x8000, 0x4000, 0x2000, 0x1000
HAS_PRIORITY, HAS_CORRELATION_ID, HAS_REPLY_TO, HAS_EXPIRATION = 0x0800, 0x0400, 0x0200, 0x0100
HAS_MESSAGE_ID, HAS_TIMESTAMP, HAS_TYPE, HAS_USER_ID = 0x0080, 0x0040, 0x0020, 0x0010
HAS_APP_ID, HAS_CLUSTER_ID = 0x0008, 0x0004

# Why a scan ended.
NEEDS_BYTES, OTHER_FRAME, ROWS_FULL, BAD_FRAME, NOT_SCANNED = range(5)
"""NOT_SCANNED is a region whose connection is not open yet."""

FRAME_ERROR, SYNTAX_ERROR, COMMAND_INVALID, CHANNEL_ERROR, UNEXPECTED_FRAME = range(501, 506)

MAX_TABLE_BYTES, MAX_TABLE_DEPTH = 64 << 10, 32
NATIVE_KIND = 0x91
"""First byte of an entry in the column NATIVE whose other bytes are properties of AMQP 0.9.1, flags and values."""
