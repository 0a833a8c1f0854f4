"""What becomes of records that cannot be processed, where their group has a dead-letter topic (KIP-1191)."""

from __future__ import annotations

from typing import Protocol

from odradek.broker.share_states.states import ShareKey
from odradek.foundation.named_tuple import NamedTuple


class UndeliverableRecords(NamedTuple):
    """Neighbouring records of one share-partition, which a member rejected or which were delivered too often."""

    key: ShareKey
    topic: str
    first_offset: int
    last_offset: int
    delivery_count: int
    is_rejected: bool


class DeadLetters(Protocol):
    """Writes to the dead-letter topic that the group names in errors.deadletterqueue.topic.name."""

    async def send(self, records: UndeliverableRecords) -> None:
        """Return once the records are there. What it raises is logged: the records are archived in any case."""
        ...
