"""Groups that are fenced: no member gets in, and those that were in are out (`odradek.fenced.until` of a group).

An administrator fences a group to change its offsets while its consumers run. Members are removed at once, so their
commits are refused as any stranger's are; whoever joins is told that the coordinator is loading, which every client
takes as "wait and try again", on this connection and without giving up. When the fence falls they join by themselves
and begin from the new offsets. A fence has an end, so that one whose maker is gone falls by itself. Commits without a
membership are the administrator's own way and are let through, so a consumer that manages its partitions itself is not
held up.

Removal may fail where the offsets topic cannot be written: members that are still there are refused their heartbeats,
and their sessions end.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from odradek.cluster.group_configs import FENCED_UNTIL_KEY, fenced_until_ms
from odradek.cluster.image import ResourceKind
from odradek.foundation.errors import CoordinatorLoadInProgress, OdradekError, UnknownMemberId
from odradek.foundation.words import count
from odradek.groups.consumer_group import ConsumerGroup
from odradek.groups.shard import Shard, ShardState

if TYPE_CHECKING:
    from odradek.cluster.image import ClusterImage
    from odradek.groups.routing import Routing

logger = logging.getLogger(__name__)


def check_may_join(coordinator: Routing, group_id: str) -> None:
    """Raises CoordinatorLoadInProgress, which clients wait on, while the group is fenced."""
    if _is_fenced(coordinator, group_id):
        raise CoordinatorLoadInProgress(
            f"the group {group_id!r} is fenced ({FENCED_UNTIL_KEY}) while its offsets are changed; try again until "
            "it is not"
        )


def check_may_stay(coordinator: Routing, group_id: str) -> None:
    """Raises UnknownMemberId, upon which members join anew, while the group is fenced."""
    if _is_fenced(coordinator, group_id):
        raise UnknownMemberId(
            f"the group {group_id!r} is fenced ({FENCED_UNTIL_KEY}) and has no members now; join again"
        )


def _is_fenced(coordinator: Routing, group_id: str) -> bool:
    texts = coordinator.images.current.config(ResourceKind.GROUP, group_id)
    return FENCED_UNTIL_KEY in texts and fenced_until_ms(texts) > coordinator.clock.wall_ms()


def image_changed(coordinator: Routing, old: ClusterImage, new: ClusterImage) -> None:
    """Empty the groups that have been fenced."""
    if old.configs is new.configs:
        return
    for (kind, group_id), texts in new.configs.items():
        if kind is not ResourceKind.GROUP or texts is old.config(ResourceKind.GROUP, group_id):
            continue
        if _is_fenced(coordinator, group_id):
            for shard in coordinator.loaded_shards():
                if group_id in shard.groups:
                    _empty(coordinator, shard, group_id)


def shard_loaded(coordinator: Routing, shard: Shard) -> None:
    """Empty the fenced groups of a partition that has come here with members."""
    for kind, group_id in coordinator.images.current.configs:
        if kind is ResourceKind.GROUP and group_id in shard.groups and _is_fenced(coordinator, group_id):
            _empty(coordinator, shard, group_id)


def _empty(coordinator: Routing, shard: Shard, group_id: str) -> None:
    try:
        shard.when_free(group_id, partial(_remove_members, coordinator, shard, group_id))
    except OdradekError as error:
        logger.warning("group %r is fenced, its members go when their sessions end: %s", group_id, error)


def _remove_members(coordinator: Routing, shard: Shard, group_id: str) -> None:
    group = shard.groups.get(group_id)
    # What was asked for may be over by the time that a change of the group has been written.
    if group is None or shard.state is not ShardState.ACTIVE or not _is_fenced(coordinator, group_id):
        return
    logger.info("group %r is fenced: %s removed", group_id, count(len(group.members), "member"))
    if not isinstance(group, ConsumerGroup):
        group.remove_all()
        return
    if group.is_empty:
        return
    from odradek.groups.consumer_requests import fence

    def on_written(error: OdradekError | None) -> None:
        if error is not None:
            logger.warning("group %r is fenced, its members go when their sessions end: %s", group_id, error)

    fence(coordinator, shard, group, sorted(group.members), on_written)
