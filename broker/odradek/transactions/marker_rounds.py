"""The markers of one ended transaction: which partitions still have to get theirs, in one attempt.

An attempt belongs to a shard, and so to one coordinator epoch, and to the transaction that it ends. Answers that come
when the attempt is over change nothing (KAFKA-9777, KAFKA-16352).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from odradek.coordination.shard import Shard, ShardState
from odradek.foundation.ids import TopicPartition
from odradek.transactions.metadata import TransactionMetadata, TransactionState
from odradek.transactions.state_machine import TransactionalId, TransactionStateMachine

RETRY_SECONDS_MIN: Final = 0.02
RETRY_SECONDS_MAX: Final = 1.0
# A partition has learned of a newer coordinator. This shard closes soon, or the topic was created again.
FENCED_RETRY_SECONDS: Final = 30.0


class MarkerRound:
    """Sends to every partition of `prepared`, the id's metadata in PrepareCommit or PrepareAbort."""

    __slots__ = ("_on_complete", "attempts", "found", "prepared", "remaining", "shard")

    def __init__(
        self,
        shard: Shard[TransactionStateMachine],
        found: TransactionalId,
        on_complete: Callable[[MarkerRound], None],
    ) -> None:
        self.shard = shard
        self.found = found
        self.prepared: TransactionMetadata = found.metadata
        self.remaining = set(found.metadata.partitions)
        self.attempts = 0
        self._on_complete = on_complete

    @property
    def is_current(self) -> bool:
        """Whether this is still the attempt of its id, on a shard that is served."""
        return self.found.markers is self and self.shard.state is ShardState.ACTIVE

    @property
    def is_commit(self) -> bool:
        return self.prepared.state is TransactionState.PREPARE_COMMIT

    @property
    def coordinator_epoch(self) -> int:
        return self.shard.led_since_epoch

    def done(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions have their marker, or need none. The last one completes the transaction."""
        if not self.is_current:
            return
        had = bool(self.remaining)
        self.remaining.difference_update(partitions)
        if had and not self.remaining:
            self._on_complete(self)

    def retry_seconds(self) -> float:
        """The pause before the next attempt for partitions that could not take their marker."""
        self.attempts += 1
        return float(min(RETRY_SECONDS_MIN * 2 ** min(self.attempts - 1, 10), RETRY_SECONDS_MAX))
