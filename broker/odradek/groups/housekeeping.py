"""What the coordinator does from time to time: forget expired offsets and groups, shorten logs, notice
deleted topics.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from odradek.foundation.errors import OdradekError
from odradek.groups import rewriting
from odradek.groups.answers import Answer
from odradek.groups.consumer_group import ConsumerGroup
from odradek.groups.group import GroupState
from odradek.groups.listing import remove
from odradek.groups.offsets import commit_time_ms, expired_offsets
from odradek.groups.schema import CommittedOffset
from odradek.groups.shard import Group, Shard, ShardState

if TYPE_CHECKING:
    from odradek.cluster.image import ClusterImage
    from odradek.groups.routing import Routing

logger = logging.getLogger(__name__)

TOMBSTONES_PER_BATCH: Final = 1000
GROUPS_PER_TURN: Final = 200
REWRITE_CHECK_SECONDS: Final = 60.0


async def keep_house(coordinator: Routing) -> None:
    """Runs as long as the coordinator does."""
    loop = asyncio.get_running_loop()
    interval = coordinator.settings.offsets_retention_check_interval_ms / 1000
    next_expiry = loop.time() + interval
    while True:
        await asyncio.sleep(min(REWRITE_CHECK_SECONDS, max(next_expiry - loop.time(), 0.001)))
        if loop.time() >= next_expiry:
            next_expiry = loop.time() + interval
            await expire_offsets(coordinator)
        await rewrite_long_logs(coordinator)


async def expire_offsets(coordinator: Routing) -> None:
    """Forget offsets whose retention is over, and groups that have nothing left."""
    for shard in coordinator.loaded_shards():
        for number, group in enumerate(list(shard.groups.values())):
            if number % GROUPS_PER_TURN == 0:
                await asyncio.sleep(0)
            if shard.state is ShardState.ACTIVE and shard.groups.get(group.group_id) is group:
                shard.when_free(group.group_id, partial(_expire, coordinator, shard, group))


def _expire(coordinator: Routing, shard: Shard, group: Group) -> None:
    if shard.groups.get(group.group_id) is not group:
        return
    offsets = shard.offsets.of_group(group.group_id)
    expired = expired_offsets(
        offsets,
        now_ms=coordinator.clock.wall_ms(),
        retention_ms=coordinator.settings.offsets_retention_minutes * 60_000,
        counted_from=_counted_from(group),
        is_subscribed_to=group.is_subscribed_to,
    )
    coordinator.offsets_expired += len(expired)
    if len(expired) == len(offsets) and _is_removable(group):
        remove(shard, group, Answer())
        return
    removals = [(group.group_id, topic, partition) for topic, partition in expired]
    for start in range(0, len(removals), TOMBSTONES_PER_BATCH):
        shard.remove_offsets(removals[start : start + TOMBSTONES_PER_BATCH], _log_failure)


def _is_removable(group: Group) -> bool:
    return group.is_empty if isinstance(group, ConsumerGroup) else group.is_removable


def _counted_from(group: Group) -> Callable[[CommittedOffset], int] | None:
    """From when the retention of the group's offsets counts, or None while they are all in use."""
    if isinstance(group, ConsumerGroup) or group.protocol_type is None:
        return commit_time_ms
    if group.state is GroupState.EMPTY:
        if group.state_timestamp_ms < 0:
            return commit_time_ms
        return lambda _committed: group.state_timestamp_ms
    if group.state is GroupState.STABLE and group.subscribed_topics is not None:
        return commit_time_ms
    return None


def _log_failure(error: OdradekError | None) -> None:
    if error is not None:
        logger.warning("expired offsets could not be removed and will be tried again: %s", error)


async def rewrite_long_logs(coordinator: Routing) -> None:
    """Shorten the logs that have outgrown their state, one after the other."""
    for shard in coordinator.loaded_shards():
        try:
            if rewriting.is_due(shard, coordinator.log):
                await rewriting.rewrite(shard, coordinator.log)
        except (OdradekError, OSError) as error:
            logger.warning("the offsets topic, partition %d, was not rewritten: %s", shard.partition, error)


def forget_deleted_topics(coordinator: Routing, old: ClusterImage, new: ClusterImage) -> None:
    """Write tombstones for the offsets of topics that are gone (or are others of the same name now)."""
    if old.topics is new.topics:
        return
    gone = {
        name
        for name, topic in old.topics.items()
        if name not in new.topics or new.topics[name].id != topic.id
    }
    if not gone:
        return
    for shard in coordinator.shards():
        if shard.is_to_be_loaded:
            shard.topics_gone |= gone
        else:
            forget_topics(shard, gone)


def forget_topics(shard: Shard, topics: set[str]) -> None:
    """Write tombstones for all offsets of `topics`."""
    removals = [
        (group_id, topic, partition) for group_id, topic, partition, _ in shard.offsets if topic in topics
    ]
    for start in range(0, len(removals), TOMBSTONES_PER_BATCH):
        shard.remove_offsets(removals[start : start + TOMBSTONES_PER_BATCH], _log_failure)
