"""What Penstock does not do as recorded, and should: it may fail. Whoever mends one takes it out."""

from __future__ import annotations

MISTAKES = frozenset(
    {
        "frame-end-of-a-body",
        "frame-type",
        "frame-type-0",
        "heartbeat-with-payload",
        "header-with-weight",
        "publish-topic-refused",
        "bind-topic-refused",
        "exchange-bind-missing-source",
        "exchange-bind-missing-destination",
        "exchange-bind-both-missing",
        "exchange-headers-x-match",
        "exchange-headers-x-match-type",
        "exchange-hash-weight",
        "exchange-hash-weight-0",
        "exchange-hash-header-and-property",
        "exchange-hash-property",
        "exchange-name-newline",
        "queue-quorum-global-qos",
        "queue-quorum-sac-get",
        "queue-quorum-sac-get-other",
        "queue-stream-get",
        "queue-stream-consume-without-qos",
        "queue-stream-consume-no-ack",
        "queue-stream-offset",
        "queue-stream-global-qos",
        "publish-too-large",
        "consume-exclusive-second",
        "consume-exclusive-beside",
        "consume-exclusive-with-sac",
    }
)
SCENES = frozenset(
    {
        "reject-publish-is-a-nack",
        "reject-publish-with-unacked",
        "reject-publish-to-one-of-two",
        "prefetch-both",
        "cancel-notify-on-delete",
        "max-priority",
        "expires",
        "dlx-rejected",
        "dlx-nack-multiple",
        "dlx-expired",
        "dlx-expiration-is-taken-off",
        "dlx-maxlen",
        "dlx-maxlen-bytes",
        "dlx-reject-publish-dlx",
        "dlx-keeps-the-key",
        "dlx-twice-counts",
        "dlx-cycle-by-expiry-is-dropped",
        "dlx-cc-is-rewritten",
        "ttl-0-with-a-consumer",
        "ttl-behind-a-longer-one",
        "delivery-limit-of-quorum",
    }
)
HAS_ALL_OF_SCRIPTS = False
"""Whether limits, priorities, dead letters and expiry are there, which scripts from seeds use."""
