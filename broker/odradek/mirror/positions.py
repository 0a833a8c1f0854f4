"""The metadata of a committed position, and what it says at the next start.

The metadata of the offset (at most 4,096 bytes) is JSON. It has the ids of the source's cluster and of the topic there,
and the leader epoch of the batch before the position. A position of another cluster, or of another topic with the same
name, means nothing. A position without metadata was committed by a user, and counts as it is.
"""

from __future__ import annotations

import json
import uuid
from typing import Final, NamedTuple

from odradek.client.metadata import NO_TOPIC_ID
from odradek.client.results import CommittedOffset
from odradek.mirror.source_batches import Position

_CLUSTER: Final = "cluster"
_TOPIC: Final = "topic"
_EPOCH: Final = "epoch"


class SourceIdentity(NamedTuple):
    """The source of a partition: its cluster and its topic, by their ids."""

    cluster_id: str
    topic_id: uuid.UUID


class Mismatch(NamedTuple):
    """Why a committed position is of no use: the kind of the error, and what happened."""

    kind: str
    what: str


def build_committed_position(position: Position, identity: SourceIdentity) -> CommittedOffset:
    """The position as it is committed at the target."""
    metadata = {_CLUSTER: identity.cluster_id, _TOPIC: str(identity.topic_id), _EPOCH: position.leader_epoch}
    return CommittedOffset(position.offset, -1, json.dumps(metadata, separators=(",", ":")))


def read_position(committed: CommittedOffset, identity: SourceIdentity) -> Position | Mismatch:
    """Where to continue, or why not there."""
    cluster_id, topic_id, epoch = _read(committed.metadata)
    if cluster_id is not None and cluster_id != identity.cluster_id:
        return Mismatch(
            "cluster-changed",
            f"the position {committed.offset} was committed for cluster {cluster_id}, and the source is now cluster "
            f"{identity.cluster_id}",
        )
    if (
        topic_id is not None
        and NO_TOPIC_ID not in (topic_id, identity.topic_id)
        and topic_id != identity.topic_id
    ):
        return Mismatch(
            "topic-recreated",
            f"the topic at the source was deleted and created again: its id was {topic_id} and is {identity.topic_id}",
        )
    return Position(committed.offset, epoch)


def source_cluster(metadata: str) -> str | None:
    """The cluster that a mirror's position was read from; None for another program's metadata."""
    return _read(metadata)[0]


def _read(metadata: str) -> tuple[str | None, uuid.UUID | None, int]:
    try:
        found = json.loads(metadata)
        return str(found[_CLUSTER]), uuid.UUID(found[_TOPIC]), int(found[_EPOCH])
    except (ValueError, KeyError, TypeError):
        return None, None, -1
