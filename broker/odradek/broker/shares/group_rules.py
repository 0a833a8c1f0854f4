"""What a share group's settings say about its share-partitions; read at each use, since they change while it runs.

share.auto.offset.reset says where a group begins to read a partition that it has never read.
"""

from __future__ import annotations

from typing import Final

from odradek.broker.replication.blocking import BlockingWork
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.time_searches import run_search
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.settings.broker_settings import Settings
from odradek.metadata.image.features import SHARE_VERSION
from odradek.metadata.image.group_configs import (
    DEAD_LETTER_TOPIC_KEY,
    group_text,
    group_value,
    is_group_switched_on,
    parse_reset_duration_ms,
)
from odradek.metadata.image.image import ClusterImage, ResourceKind

# The level of share.version from which on groups may have a dead-letter topic (KIP-1191).
_FIRST_WITH_DEAD_LETTERS: Final = 2
_LATEST: Final = "latest"
_EARLIEST: Final = "earliest"


class GroupRules(NamedTuple):
    """The settings of one group, or the broker's where it has none of its own."""

    lock_ms: int
    in_flight_max: int
    delivery_count_max: int
    may_renew: bool
    is_committed_only: bool
    offset_reset: str
    dead_letter_topic: str


def rules_of(group_id: str, image: ClusterImage, settings: Settings) -> GroupRules:
    texts = image.config(ResourceKind.GROUP, group_id)
    has_dead_letters = image.features.level(SHARE_VERSION) >= _FIRST_WITH_DEAD_LETTERS
    return GroupRules(
        lock_ms=group_value("share.record.lock.duration.ms", texts, settings=settings),
        in_flight_max=group_value("share.partition.max.record.locks", texts, settings=settings),
        delivery_count_max=group_value("share.delivery.count.limit", texts, settings=settings),
        may_renew=is_group_switched_on("share.renew.acknowledge.enable", texts),
        is_committed_only=group_text("share.isolation.level", texts) == "read_committed",
        offset_reset=group_text("share.auto.offset.reset", texts),
        dead_letter_topic=group_text(DEAD_LETTER_TOPIC_KEY, texts) if has_dead_letters else "",
    )


async def find_start_offset(partition: Partition, reset: str, *, now_ms: int, blocking: BlockingWork) -> int:
    """The offset that `reset` means now: the log's end as members see it, its start, or that of a time."""
    if reset == _LATEST:
        return partition.high_watermark
    if reset == _EARLIEST:
        return partition.log.log_start_offset
    time_ms = max(now_ms - parse_reset_duration_ms(reset), 0)
    search = partition.log.search_timestamp(time_ms, offset_limit=partition.high_watermark)
    found = await run_search(search, blocking)
    return partition.high_watermark if found is None else found.offset
