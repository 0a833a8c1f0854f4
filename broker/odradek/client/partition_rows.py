"""The partitions of requests and answers. Most messages have them by topic: a name, and a row for each partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, TypeVar

from odradek.client.results import CommittedOffset
from odradek.foundation.ids import TopicPartition, by_topic

Rows = list[dict[str, object]]


class _Row(Protocol):
    @property
    def partition_index(self) -> int: ...


RowT = TypeVar("RowT", bound=_Row)
RowT_co = TypeVar("RowT_co", covariant=True)


class _Topic(Protocol[RowT_co]):
    @property
    def name(self) -> str: ...

    @property
    def partitions(self) -> tuple[RowT_co, ...]: ...


def rows_by_topic(
    rows: Iterable[tuple[TopicPartition, Mapping[str, object]]],
    *,
    topic: str = "name",
    partitions: str = "partitions",
) -> Rows:
    """The rows of partitions by topic, under the names that the request has for the two."""
    found: dict[str, list[Mapping[str, object]]] = {}
    for key, row in rows:
        found.setdefault(key.topic, []).append(row)
    return [{topic: name, partitions: of_topic} for name, of_topic in found.items()]


def numbers_by_topic(
    given: Iterable[TopicPartition] | None, *, topic: str = "name", partitions: str
) -> Rows | None:
    """As `rows_by_topic`, with plain numbers of partitions. None, which stands for all, stays None."""
    if given is None:
        return None
    return [{topic: name, partitions: numbers} for name, numbers in by_topic(given).items()]


def build_commit_rows(offsets: Mapping[TopicPartition, CommittedOffset]) -> Rows:
    return rows_by_topic(
        (
            key,
            {
                "partition_index": key.partition,
                "committed_offset": committed.offset,
                "committed_leader_epoch": committed.leader_epoch,
                "committed_metadata": committed.metadata,
            },
        )
        for key, committed in offsets.items()
    )


def list_answer_rows(topics: Iterable[_Topic[RowT]]) -> Iterator[tuple[TopicPartition, RowT]]:
    return (
        (TopicPartition(topic.name, row.partition_index), row) for topic in topics for row in topic.partitions
    )
