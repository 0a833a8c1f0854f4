"""Verification of transactional producers: no batch joins a transaction that has ended (KIP-890).

Before a producer's first batch of a transaction, the leader asks the transaction coordinator whether the partition
belongs to it. A marker may be written between the answer and the append. The batch would then open a transaction that
never ends. So a token is made before the question, and the append needs that very token. Each data batch and each
marker of the producer removes it.

With transactions of version 2 the next transaction has the epoch of the last one's marker. Such a marker is of the
transaction before, and the token stays valid (KAFKA-18575, KAFKA-18654).
"""

from __future__ import annotations

from typing import Final

from odradek.foundation.limits import PRODUCER_IDS_PER_PARTITION_MAX

# Of one producer: the true epoch, the one before it, and some that no coordinator has given.
_EPOCHS_MAX: Final = 5


class VerificationToken:
    """One producer's verification in one partition. Two tokens are never equal."""

    __slots__ = ("adds_partition", "created_ms", "lowest_sequence", "producer_epoch", "producer_id")

    def __init__(
        self,
        producer_id: int,
        producer_epoch: int,
        *,
        first_sequence: int,
        adds_partition: bool,
        created_ms: int,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.lowest_sequence = first_sequence
        """The lowest first sequence number among the batches that wait: a higher one may not be written first."""
        self.adds_partition = adds_partition
        """Whether the question adds the partition to the transaction: version 2 of transactions."""
        self.created_ms = created_ms


class VerificationTokens:
    """The tokens of one partition, by producer id and epoch. The oldest producer's go where there are too many.

    An epoch that no coordinator has given must not void the token of the true one, so each epoch has its own.
    """

    __slots__ = ("_producers_max", "standing")

    def __init__(self, *, producers_max: int = PRODUCER_IDS_PER_PARTITION_MAX) -> None:
        self.standing: dict[int, dict[int, VerificationToken]] = {}
        """By producer id and epoch, the oldest first; nearly always empty."""
        self._producers_max = producers_max

    def begin(
        self, producer_id: int, producer_epoch: int, *, first_sequence: int, adds_partition: bool, now_ms: int
    ) -> VerificationToken:
        """The producer's token, a new one where none stands: to be taken before the coordinator is asked."""
        tokens = self.standing.get(producer_id)
        if tokens is None:
            if len(self.standing) >= self._producers_max:
                del self.standing[next(iter(self.standing))]
            tokens = self.standing[producer_id] = {}
        token = tokens.get(producer_epoch)
        if token is not None:
            token.lowest_sequence = min(token.lowest_sequence, first_sequence)
            token.adds_partition |= adds_partition
            return token
        if len(tokens) >= _EPOCHS_MAX:
            del tokens[next(iter(tokens))]
        token = tokens[producer_epoch] = VerificationToken(
            producer_id,
            producer_epoch,
            first_sequence=first_sequence,
            adds_partition=adds_partition,
            created_ms=now_ms,
        )
        return token

    def get(self, producer_id: int, producer_epoch: int) -> VerificationToken | None:
        tokens = self.standing.get(producer_id)
        return None if tokens is None else tokens.get(producer_epoch)

    def data_written(self, producer_id: int) -> None:
        """A data batch of the producer is in the log."""
        self.standing.pop(producer_id, None)

    def marker_seen(self, producer_id: int, producer_epoch: int) -> None:
        """A marker of the producer was written, or came again."""
        tokens = self.standing.get(producer_id, {})
        for token in list(tokens.values()):
            is_next = token.adds_partition and token.producer_epoch == producer_epoch
            if token.producer_epoch <= producer_epoch and not is_next:
                del tokens[token.producer_epoch]
        if not tokens:
            self.standing.pop(producer_id, None)

    def expire(self, *, now_ms: int, expiration_ms: int) -> None:
        """Drop the tokens of questions that nothing waits for any more."""
        for producer_id, tokens in list(self.standing.items()):
            if all(now_ms - token.created_ms >= expiration_ms for token in tokens.values()):
                del self.standing[producer_id]

    def clear(self) -> None:
        self.standing.clear()
