"""The state of a share-partition as it is stored, and what stores it (KIP-932, "Share-group state persister").

A share-partition is one partition of a topic as one share group sees it. Its leader is the partition's leader. What
the group has acknowledged is kept by the share coordinator, in `__share_group_state`. The leader reads it when it
begins to serve the share-partition, and writes each change before it answers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol
from uuid import UUID

from odradek.foundation.errors import OdradekError
from odradek.foundation.named_tuple import NamedTuple

# The start offset of a state that was initialized, while no leader has chosen where the group begins to read.
NOT_STARTED: Final = -1
# Of a write that leaves the start offset as it is; the same number, in another place.
UNCHANGED: Final = -1
# A leader epoch that is compared with none.
ANY_LEADER_EPOCH: Final = -1


class StateRange(NamedTuple):
    """Records of one state: the offsets from the first to the last, both included."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


class ShareKey(NamedTuple):
    """Names one share-partition."""

    group_id: str
    topic_id: UUID
    partition: int

    @property
    def coordinator_key(self) -> str:
        """The text that its coordinator is found by."""
        return f"{self.group_id}:{kafka_id(self.topic_id)}:{self.partition}"


class ShareState(NamedTuple):
    """What is stored. Records below `start_offset` are done; those in no batch, above it, were never acquired."""

    state_epoch: int
    start_offset: int
    batches: tuple[StateRange, ...] = ()
    leader_epoch: int = ANY_LEADER_EPOCH
    delivery_complete_count: int = -1


class StateChange(NamedTuple):
    """A change of a state. Of each offset the batch with more deliveries counts, and then the later state.

    `delivery_complete_count` counts the offsets from the start on whose delivery is complete; -1 where not known.
    """

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: Sequence[StateRange]


class ShareStates(Protocol):
    """Reads and writes states, wherever their coordinator is.

    Both raise OdradekError. FencedLeaderEpoch is for a leader that another one has followed. FencedStateEpoch is for a
    state that was initialized again since, UnknownTopicOrPartition for one that was deleted. Both try again.
    """

    async def read(self, key: ShareKey, *, leader_epoch: int) -> ShareState: ...

    async def write(self, key: ShareKey, change: StateChange) -> None: ...


class StateSummary(NamedTuple):
    """A state without its batches; see `ShareState`."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int


# By topic and partition, the error that a partition met; a partition without one was done.
StateErrors = Mapping[tuple[UUID, int], OdradekError]
# By topic and partition, the start offsets of states that begin.
StartOffsets = Mapping[UUID, Mapping[int, int]]
PartitionsByTopic = Mapping[UUID, Collection[int]]


class ShareStateRequests(Protocol):
    """What the group coordinator asks of the share coordinators, wherever they are. Nothing raises."""

    async def initialize(self, group_id: str, starts: StartOffsets, *, state_epoch: int) -> StateErrors:
        """Begin states, or begin them again at another offset."""
        ...

    async def delete(self, group_id: str, partitions: PartitionsByTopic) -> StateErrors: ...

    async def summarize(
        self, group_id: str, partitions: PartitionsByTopic
    ) -> Mapping[tuple[UUID, int], StateSummary | OdradekError]: ...


def kafka_id(topic_id: UUID) -> str:
    """A topic's id as Kafka writes it: 22 characters of base 64."""
    from base64 import urlsafe_b64encode

    return urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
