"""Names for what the MQTT kernels fill: columns of scanned packets, why a scan ended, reason codes of MQTT 5."""

from __future__ import annotations

# Columns of a row, int32 each. Positions are those of the scanned buffer.
COLUMNS = 17
HEAD, PACKET_ID, REASON, PRESENT, ALIAS = range(5)
"""HEAD is the first byte: kind, dup, QoS and retain. REASON is of acknowledgements, PRESENT and ALIAS of PUBLISH."""
TOPIC_START, TOPIC_END, PROPERTIES_START, PROPERTIES_END, PAYLOAD_START, PAYLOAD_END = range(5, 11)
"""The properties are without their total length. PAYLOAD_END is the end of the packet, whatever its kind."""
EXPIRY_AT, CONTENT_TYPE_AT, RESPONSE_TOPIC_AT, CORRELATION_AT, ALIAS_AT = range(11, 16)
"""Where the property's value is: a big-endian number, or two bytes of length and then as many. Says nothing unless
PRESENT has the property's bit."""
REGION = 16
"""Number of the region that the packet is of, among those that were scanned together."""

# Bits of PRESENT.
HAS_ALIAS, IS_TEXT, HAS_USER_PROPERTIES = 0x01, 0x10, 0x20
HAS_FORMAT, HAS_EXPIRY, HAS_CONTENT_TYPE, HAS_RESPONSE_TOPIC, HAS_CORRELATION = 0x02, 0x04, 0x08, 0x100, 0x200
HOP_BY_HOP = HAS_ALIAS | HAS_EXPIRY

# Why a scan ended.
NEEDS_BYTES, OTHER_PACKET, ROWS_FULL, BAD_PACKET, NOT_SCANNED = range(5)
"""NOT_SCANNED is a region whose version is not known yet."""

# Kinds of packets.
PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = range(3, 8)

MALFORMED_PACKET, PROTOCOL_ERROR = 0x81, 0x82
TOPIC_NAME_INVALID, TOPIC_ALIAS_INVALID, PACKET_TOO_LARGE = 0x90, 0x94, 0x95
RETAIN_NOT_SUPPORTED, QOS_NOT_SUPPORTED = 0x9A, 0x9B
