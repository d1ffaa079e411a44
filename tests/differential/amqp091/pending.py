"""What Penstock does not do as recorded, and should: it may fail. Whoever mends one takes it out."""

from __future__ import annotations

MISTAKES = frozenset[str]()
SCENES = frozenset(
    {
        "reject-publish-to-one-of-two",
        "prefetch-both",
        "cancel-notify-on-delete",
        "max-priority",
        "dlx-reject-publish-dlx",
        "ttl-0-with-a-consumer",
        "ttl-behind-a-longer-one",
        "delivery-limit-of-quorum",
    }
)
HAS_ALL_OF_SCRIPTS = False
"""Whether limits, priorities, dead letters and expiry are there, which scripts from seeds use."""
