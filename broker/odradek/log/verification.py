"""Verification of transactional producers: no batch joins a transaction that has ended (KIP-890).

Before a producer's first batch of a transaction, the leader asks the transaction coordinator whether the partition
belongs to it. A marker may be written between the answer and the append. The batch would then open a transaction that
never ends. So a token is made before the question, and the append needs that very token. Each data batch and each
marker of the producer removes it.

With transactions of version 2 the next transaction has the epoch of the last one's marker. Such a marker is of the
transaction before, and the token stays valid (KAFKA-18575, KAFKA-18654).
"""

from __future__ import annotations

from odradek.foundation.limits import PRODUCER_IDS_PER_PARTITION_MAX


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
    """The tokens of one partition, one for each producer id. The oldest is dropped where there are too many."""

    __slots__ = ("_tokens_max", "standing")

    def __init__(self, *, tokens_max: int = PRODUCER_IDS_PER_PARTITION_MAX) -> None:
        self.standing: dict[int, VerificationToken] = {}
        """By producer id, the oldest first; nearly always empty."""
        self._tokens_max = tokens_max

    def begin(
        self, producer_id: int, producer_epoch: int, *, first_sequence: int, adds_partition: bool, now_ms: int
    ) -> VerificationToken:
        """The producer's token, a new one where there is none: to be made before the coordinator is asked."""
        standing = self.standing.get(producer_id)
        if standing is not None and standing.producer_epoch == producer_epoch:
            standing.lowest_sequence = min(standing.lowest_sequence, first_sequence)
            return standing
        token = VerificationToken(
            producer_id,
            producer_epoch,
            first_sequence=first_sequence,
            adds_partition=adds_partition,
            created_ms=now_ms,
        )
        if standing is not None:
            if standing.producer_epoch > producer_epoch:
                return token  # An older instance of the producer: its token is never valid.
            del self.standing[producer_id]
        elif len(self.standing) >= self._tokens_max:
            del self.standing[next(iter(self.standing))]
        self.standing[producer_id] = token
        return token

    def get(self, producer_id: int) -> VerificationToken | None:
        return self.standing.get(producer_id)

    def data_written(self, producer_id: int) -> None:
        """A data batch of the producer is in the log."""
        self.standing.pop(producer_id, None)

    def marker_seen(self, producer_id: int, producer_epoch: int) -> None:
        """A marker of the producer was written, or came again."""
        token = self.standing.get(producer_id)
        if token is not None and not (token.adds_partition and token.producer_epoch >= producer_epoch):
            del self.standing[producer_id]

    def expire(self, *, now_ms: int, expiration_ms: int) -> None:
        """Drop the tokens of questions that no request waits for any more."""
        tokens = self.standing
        while tokens:
            token = next(iter(tokens.values()))
            if now_ms - token.created_ms < expiration_ms:
                return
            del tokens[token.producer_id]

    def clear(self) -> None:
        self.standing.clear()
