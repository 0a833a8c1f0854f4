"""The names by which brokers, partitions and producers are told apart.

They are plain tuples and numbers, cheap to hash: a request for a thousand partitions makes a thousand of them.
"""

from __future__ import annotations

import uuid
from typing import NamedTuple, NewType

BrokerId = NewType("BrokerId", int)
ProducerId = NewType("ProducerId", int)
TopicId = uuid.UUID

NO_PRODUCER_ID = ProducerId(-1)
NO_LEADER_EPOCH = -1
NO_TIMESTAMP_MS = -1


class TopicPartition(NamedTuple):
    """One partition of one topic; prints as its directory's name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
