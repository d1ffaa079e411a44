"""Broker code in a thread that is not the loop's, while the loop sleeps: what is staged is committed there too."""

from __future__ import annotations

from penstock.broker.queues.ledger import Ledger
from penstock.log.shard import Shard


class Visits:
    """begin(), end() and report() are called by whoever has the loop's turn, commit() by the same thread without it."""

    def __init__(self, shard: Shard, ledger: Ledger) -> None:
        self._shard, self._ledger = shard, ledger
        self.commit, self.report = shard.commit_here, shard.report

    def begin(self) -> None:
        self._shard.is_visited = True

    def end(self) -> bool:
        """All that is to be committed is staged; whether there is anything, and commit() has to follow."""
        self._ledger.flush_now()
        self._shard.is_visited = False
        return self._shard.has_staged
