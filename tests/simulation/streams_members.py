"""Members of a Streams group (KIP-1071): a task for each partition, and a standby of each on another member.

The members run in processes of their own, so a task and its standby are never on one member.
"""

from __future__ import annotations

from typing import Any, Final

from odradek.client.client import Client
from odradek.client.errors import raise_for
from odradek.foundation.ids import TopicPartition
from odradek.wire.protocol.api import ApiKey
from tests.simulation.cluster import TOPIC
from tests.simulation.group_checks import GroupWatch
from tests.simulation.heartbeat_members import (
    JOINING,
    LEAVING,
    REVOCATION_MS_MAX,
    Beat,
    HeartbeatMember,
    HeartbeatMembers,
)

_SUBTOPOLOGY: Final = "0"
_TOPOLOGY: Final = {
    "epoch": 0,
    "subtopologies": [
        {
            "subtopology_id": _SUBTOPOLOGY,
            "source_topics": [TOPIC],
            "source_topic_regex": [],
            # Only tasks with a state have standbys.
            "state_changelog_topics": [
                {
                    "name": f"{TOPIC}-changelog",
                    "partitions": 0,
                    "replication_factor": 3,
                    "topic_configs": [{"key": "cleanup.policy", "value": "compact"}],
                }
            ],
            "repartition_sink_topics": [],
            "repartition_source_topics": [],
            "copartition_groups": [],
        }
    ],
}


class StreamsMembers(HeartbeatMembers):
    """A Streams group."""

    def _make_member(self, client: Client, name: str, member_id: str) -> HeartbeatMember:
        return _StreamsMember(client, self.watch, name, member_id=member_id)

    def is_settled(self) -> bool:
        """Whether all was handed out and committed, and each task has its standby again."""
        return super().is_settled() and self.watch.has_standbys(self._cluster.partition_count)


class _StreamsMember(HeartbeatMember):
    """A member in a process of its own, and its tasks."""

    def __init__(self, client: Client, watch: GroupWatch, name: str, *, member_id: str) -> None:
        super().__init__(client, watch, name, member_id=member_id)
        self._standbys: tuple[int, ...] = ()

    async def _beat(self, epoch: int) -> Beat:
        is_member = epoch not in (JOINING, LEAVING)
        connection = await self._client.coordinator(self._watch.group_id)
        answer = await connection.request(
            ApiKey.STREAMS_GROUP_HEARTBEAT,
            versions=(0, 0),
            group_id=self._watch.group_id,
            member_id=self._member_id,
            member_epoch=epoch,
            endpoint_information_epoch=-1,
            instance_id=None,
            rack_id=None,
            rebalance_timeout=REVOCATION_MS_MAX if epoch == JOINING else -1,
            topology=_TOPOLOGY if epoch == JOINING else None,
            active_tasks=_tasks([key.partition for key in self._owned] if is_member else []),
            standby_tasks=_tasks(self._standbys if is_member else ()),
            warmup_tasks=[],
            process_id=self._member_id,
            user_endpoint=None,
            client_tags=[],
            task_offsets=None,
            task_end_offsets=None,
            shutdown_application=False,
        )
        raise_for(int(answer.error_code), answer.error_message, about=f"group {self._watch.group_id!r}")
        if epoch == JOINING:
            self._standbys = ()
        if answer.active_tasks is None:
            return Beat(int(answer.member_epoch), None)
        active = _numbers(answer.active_tasks)
        self._standbys = _numbers(answer.standby_tasks)
        self._watch.stands_by(self._name, self._standbys, active=active)
        return Beat(int(answer.member_epoch), tuple(TopicPartition(TOPIC, number) for number in active))


def _tasks(partitions: Any) -> list[dict[str, Any]]:
    return [{"subtopology_id": _SUBTOPOLOGY, "partitions": list(partitions)}] if partitions else []


def _numbers(tasks: Any) -> tuple[int, ...]:
    return tuple(int(number) for task in tasks or () for number in task.partitions)
