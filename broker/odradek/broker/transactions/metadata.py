"""One transactional id: its producer id and epoch, the state of its transaction, and the steps between states.

    | State             | number | comes from                                            |
    | ----------------- | ------ | ----------------------------------------------------- |
    | Empty             | 0      | Empty, CompleteCommit, CompleteAbort                  |
    | Ongoing           | 1      | Ongoing, Empty, CompleteCommit, CompleteAbort         |
    | PrepareCommit     | 2      | Ongoing                                               |
    | PrepareAbort      | 3      | Ongoing; under TV2 also Empty and both Complete       |
    | CompleteCommit    | 4      | PrepareCommit                                         |
    | CompleteAbort     | 5      | PrepareAbort                                          |
    | Dead              | 6      | Empty, CompleteCommit, CompleteAbort (never on disk)  |
    | PrepareEpochFence | 7      | Ongoing (never on disk, and not used here)            |

Values are immutable: a step gives the next value, which counts once it is in the log. Two generations of the protocol
differ in their epochs. TV1 keeps the producer's epoch at a transaction's end. TV2 (KIP-890) raises it by one, so that
late requests are refused. Sources: KIP-98, KIP-360, KIP-890.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from odradek.foundation.ids import TopicPartition, by_topic
from odradek.foundation.named_tuple import NamedTuple

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
PRODUCER_EPOCH_MAX: Final = 32767
# A producer never gets the highest epoch: it is kept for the fence after the last one (KIP-360).
PRODUCER_EPOCH_EXHAUSTED: Final = PRODUCER_EPOCH_MAX - 1

TV0: Final = 0
TV1: Final = 1  # the log has flexible records
TV2: Final = 2  # each end of a transaction raises the epoch


class TransactionState(IntEnum):
    """The numbers are those of the log; `title` is the name that clients see."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        return "".join(word.capitalize() for word in self.name.split("_"))


COMPLETE_STATES: Final = frozenset((TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT))
PREPARE_STATES: Final = frozenset((TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT))

COMES_FROM: Final = {
    TransactionState.EMPTY: frozenset((TransactionState.EMPTY, *COMPLETE_STATES)),
    TransactionState.ONGOING: frozenset((TransactionState.ONGOING, TransactionState.EMPTY, *COMPLETE_STATES)),
    TransactionState.PREPARE_COMMIT: frozenset((TransactionState.ONGOING,)),
    TransactionState.PREPARE_ABORT: frozenset(
        (TransactionState.ONGOING, TransactionState.EMPTY, *COMPLETE_STATES)
    ),
    TransactionState.COMPLETE_COMMIT: frozenset((TransactionState.PREPARE_COMMIT,)),
    TransactionState.COMPLETE_ABORT: frozenset((TransactionState.PREPARE_ABORT,)),
}


class StoredPartitions(NamedTuple):
    """The partitions of one topic, as in the log."""

    topic: str
    partitions: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMetadata:
    """The stored values of one transactional id. Times are milliseconds since 1970; -1 stands for none.

    `previous_producer_id` is the id before the last step, `next_producer_id` the one that follows an exhausted epoch.
    `last_producer_epoch` is the epoch whose InitProducerId may be repeated. `client_version` is the generation of the
    protocol that the client used last: 2 stands for TV2.
    """

    producer_id: int
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    producer_epoch: int
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = -1
    updated_ms: int
    client_version: int = TV0

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.producer_epoch >= PRODUCER_EPOCH_EXHAUSTED

    @property
    def stored_partitions(self) -> list[StoredPartitions] | None:
        """The partitions as the log has them: null while the state is Empty."""
        if self.state is TransactionState.EMPTY:
            return None
        return [StoredPartitions(*topic) for topic in by_topic(sorted(self.partitions)).items()]

    # --- steps ----------------------------------------------------------------------------------------------

    def initialize(self, *, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int) -> TransactionMetadata:
        """Empty, with this epoch, after InitProducerId."""
        return self._step(
            TransactionState.EMPTY,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=-1,
            updated_ms=now_ms,
        )

    def with_new_producer_id(
        self, producer_id: int, *, last_epoch: int, timeout_ms: int, now_ms: int
    ) -> TransactionMetadata:
        """Empty, with a fresh producer id at epoch 0, because the old one has no epochs left."""
        empty = self.initialize(epoch=0, last_epoch=last_epoch, timeout_ms=timeout_ms, now_ms=now_ms)
        return replace(empty, producer_id=producer_id)

    def with_partitions(
        self, partitions: Iterable[TopicPartition], *, now_ms: int, client_version: int
    ) -> TransactionMetadata:
        """Ongoing, with more partitions. The first ones begin the transaction."""
        is_begun = self.state is TransactionState.ONGOING
        return self._step(
            TransactionState.ONGOING,
            partitions=self.partitions.union(partitions),
            start_ms=self.start_ms if is_begun else now_ms,
            updated_ms=now_ms,
            client_version=client_version,
        )

    def prepare(
        self,
        *,
        is_commit: bool,
        client_version: int,
        now_ms: int,
        raises_epoch: bool,
        next_producer_id: int = NO_PRODUCER_ID,
        forgets_last_epoch: bool = False,
    ) -> TransactionMetadata:
        """PrepareCommit or PrepareAbort: from here on the outcome is decided.

        With `raises_epoch` older requests of the producer are refused. The highest epoch stays as it is: a log of
        Apache Kafka may hold it, and its transaction must end.
        """
        state = TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT
        epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
        if raises_epoch:
            epoch, last_epoch = min(epoch + 1, PRODUCER_EPOCH_MAX), epoch
        return self._step(
            state,
            producer_epoch=epoch,
            last_producer_epoch=NO_PRODUCER_EPOCH if forgets_last_epoch else last_epoch,
            next_producer_id=next_producer_id,
            # An abort without partitions has no beginning, and the log needs one.
            start_ms=self.start_ms if self.state is TransactionState.ONGOING else now_ms,
            updated_ms=now_ms,
            client_version=client_version,
        )

    def complete(self, *, now_ms: int) -> TransactionMetadata:
        """CompleteCommit or CompleteAbort: every partition has its marker.

        Where the epoch was exhausted, the next producer id takes over at epoch 0.
        """
        is_commit = self.state is TransactionState.PREPARE_COMMIT
        completed = self._step(
            TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
            partitions=frozenset(),
            next_producer_id=NO_PRODUCER_ID,
            updated_ms=now_ms,
        )
        if self.client_version >= TV2 and self.next_producer_id != NO_PRODUCER_ID:
            return replace(completed, producer_id=self.next_producer_id, producer_epoch=0)
        return completed

    def _step(self, state: TransactionState, **changes: object) -> TransactionMetadata:
        assert self.state in COMES_FROM[state], f"{self.state.title} to {state.title}"
        return replace(self, state=state, previous_producer_id=self.producer_id, **changes)  # type: ignore[arg-type]


def new_transactional_id(*, producer_id: int, timeout_ms: int, now_ms: int) -> TransactionMetadata:
    """A transactional id at its first InitProducerId, which raises the epoch to 0."""
    return TransactionMetadata(
        producer_id=producer_id,
        producer_epoch=NO_PRODUCER_EPOCH,
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        updated_ms=now_ms,
    )
