"""Committed offsets of one partition of the offsets topic, and when they expire (KIP-211).

    | Group                           | Offsets that expire            | Retention counts from           |
    | ------------------------------- | ------------------------------ | ------------------------------- |
    | with members                    | of topics without a subscriber | the commit                      |
    | empty                           | all                            | the moment that it became empty |
    | that never had members          | all                            | the commit                      |

A commit with a retention of its own (OffsetCommit v2 to v4) expires by that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from odradek.broker.groups.schema import OffsetAndMetadata
from odradek.foundation.named_tuple import NamedTuple

TopicPartitionKey = tuple[str, int]

_NO_OFFSETS: Final[dict[TopicPartitionKey, OffsetAndMetadata]] = {}


class Committer(NamedTuple):
    """The maker of a commit, as it describes itself. `version` is the one of OffsetCommit.

    `is_transactional` is for TxnOffsetCommit: a commit without a member is allowed to a group with members, and one
    of a member while the group rebalances. `commits` are what it commits, as (topic, partition, offset).
    """

    member_id: str
    instance_id: str | None
    generation: int
    version: int
    is_transactional: bool = False
    commits: Sequence[tuple[str, int, OffsetAndMetadata]] = ()

    @property
    def names_member(self) -> bool:
        return self.generation >= 0 or bool(self.member_id) or self.instance_id is not None


class OffsetStore:
    """Offsets by group, topic and partition, as they are written to the log."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[TopicPartitionKey, OffsetAndMetadata]] = {}

    def put(self, group_id: str, topic: str, partition: int, committed: OffsetAndMetadata) -> None:
        offsets = self._by_group.get(group_id)
        if offsets is None:
            offsets = self._by_group[group_id] = {}
        offsets[topic, partition] = committed

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        offsets = self._by_group.get(group_id)
        if offsets is not None and offsets.pop((topic, partition), None) is not None and not offsets:
            del self._by_group[group_id]

    def get(self, group_id: str, topic: str, partition: int) -> OffsetAndMetadata | None:
        return self._by_group.get(group_id, _NO_OFFSETS).get((topic, partition))

    def of_group(self, group_id: str) -> dict[TopicPartitionKey, OffsetAndMetadata]:
        """The group's offsets; not to be changed by the caller."""
        return self._by_group.get(group_id, _NO_OFFSETS)

    def groups(self) -> Iterable[str]:
        return self._by_group.keys()

    def __iter__(self) -> Iterator[tuple[str, str, int, OffsetAndMetadata]]:
        for group_id, offsets in self._by_group.items():
            for (topic, partition), committed in offsets.items():
                yield group_id, topic, partition, committed


def find_expired_offsets(
    offsets: dict[TopicPartitionKey, OffsetAndMetadata],
    *,
    now_ms: int,
    retention_ms: int,
    counted_from: Callable[[OffsetAndMetadata], int] | None,
    is_subscribed_to: Callable[[str], bool],
) -> list[TopicPartitionKey]:
    """The offsets to forget. `counted_from` gives the moment that retention starts at; None keeps every offset."""
    if counted_from is None:
        return []
    expired = []
    for key, committed in offsets.items():
        if is_subscribed_to(key[0]):
            continue
        if committed.expire_timestamp_ms >= 0:
            is_expired = now_ms >= committed.expire_timestamp_ms
        else:
            is_expired = now_ms - counted_from(committed) >= retention_ms
        if is_expired:
            expired.append(key)
    return expired


def commit_time_ms(committed: OffsetAndMetadata) -> int:
    """Retention counted from the commit."""
    return committed.commit_timestamp_ms
