"""Share groups (KIP-932), which share records as work queues do: describe them, and move where they are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from odradek.client.admin.groups import SHARE, GroupAdmin
from odradek.client.client import Client
from odradek.client.connection import BrokerConnection
from odradek.client.errors import raise_for
from odradek.client.partition_rows import rows_by_topic
from odradek.client.results import GroupDescription, GroupListing
from odradek.foundation.errors import GroupIdNotFound
from odradek.foundation.ids import TopicPartition
from odradek.wire.protocol.api import ApiKey

T = TypeVar("T")

# The lag comes with version 1.
_DESCRIBE_OFFSETS_VERSIONS: Final = (0, 1)
_CHANGE_VERSIONS: Final = (0, 0)


@dataclass(frozen=True, slots=True)
class QueueOffset:
    """Where the group is in a partition: records below `start` are done, and `lag` of the others are not.

    `lag` is None where the broker does not know it.
    """

    start: int
    leader_epoch: int
    lag: int | None


class QueueAdmin:
    """The admin calls for share groups. `Admin(client).groups.delete` deletes them too."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._groups = GroupAdmin(client)

    async def list(self) -> list[GroupListing]:
        """Every share group, by its id."""
        return [group for group in await self._groups.list() if group.type == SHARE]

    async def describe(self, group_id: str) -> GroupDescription:
        """One share group. Raises GroupIdNotFound, also for a group of another type."""
        found = await self.find(group_id)
        if found is None:
            raise GroupIdNotFound(
                f"there is no queue {group_id!r}; `odradek queues list` lists all queues",
                missing_name=group_id,
                is_queue=True,
            )
        return found

    async def find(self, group_id: str) -> GroupDescription | None:
        """One share group, or None. Raises GroupIdNotFound for a group of another type."""
        try:
            found = await self._groups.describe(group_id)
        except GroupIdNotFound:
            return None
        if found.type != SHARE:
            raise GroupIdNotFound(
                f"there is no queue {group_id!r}: that is a {found.type} group; `odradek groups describe {group_id}` "
                "shows it"
            )
        return found

    async def offsets(
        self, group_id: str, topics: Sequence[str] | None = None
    ) -> dict[TopicPartition, QueueOffset]:
        """Where the group is, in these topics or in all. Partitions that it has not begun are absent.

        Raises GroupIdNotFound, and the error of a partition.
        """
        cluster = None if topics is None else await self._client.topics(topics)
        rows = (
            None
            if topics is None or cluster is None
            else [
                {
                    "topic_name": name,
                    "partitions": [one.partition for one in cluster.topic(name).partitions],
                }
                for name in topics
            ]
        )

        async def ask(connection: BrokerConnection) -> dict[TopicPartition, QueueOffset]:
            answer = await connection.request(
                ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
                versions=_DESCRIBE_OFFSETS_VERSIONS,
                groups=[{"group_id": group_id, "topics": rows}],
            )
            (group,) = answer.groups
            raise_for(
                group.error_code, group.error_message, about=f"share group {group_id!r}", group=group_id
            )
            found: dict[TopicPartition, QueueOffset] = {}
            for topic in group.topics:
                for row in topic.partitions:
                    key = TopicPartition(topic.topic_name, row.partition_index)
                    raise_for(row.error_code, row.error_message, about=f"partition {key}", topic=key.topic)
                    if row.start_offset >= 0:
                        lag = int(getattr(row, "lag", -1))
                        found[key] = QueueOffset(
                            row.start_offset, row.leader_epoch, lag if lag >= 0 else None
                        )
            return dict(sorted(found.items()))

        return await self._ask(group_id, ask)

    async def alter_offsets(self, group_id: str, starts: Mapping[TopicPartition, int]) -> None:
        """Begin at these offsets: what was acquired or done from there on is forgotten. Raises NonEmptyGroup while the
        group has members, and the first error of a partition.
        """
        topics = rows_by_topic(
            (
                (key, {"partition_index": key.partition, "start_offset": start})
                for key, start in starts.items()
            ),
            topic="topic_name",
        )

        async def ask(connection: BrokerConnection) -> None:
            answer = await connection.request(
                ApiKey.ALTER_SHARE_GROUP_OFFSETS, versions=_CHANGE_VERSIONS, group_id=group_id, topics=topics
            )
            raise_for(
                answer.error_code, answer.error_message, about=f"share group {group_id!r}", group=group_id
            )
            for topic in answer.responses:
                for row in topic.partitions:
                    about = f"partition {topic.topic_name}-{row.partition_index}"
                    raise_for(row.error_code, row.error_message, about=about, topic=topic.topic_name)

        await self._ask(group_id, ask)

    async def delete_offsets(self, group_id: str, topics: Iterable[str]) -> None:
        """Forget where the group is in these topics. Raises NonEmptyGroup, and the first error of a topic."""

        async def ask(connection: BrokerConnection) -> None:
            answer = await connection.request(
                ApiKey.DELETE_SHARE_GROUP_OFFSETS,
                versions=_CHANGE_VERSIONS,
                group_id=group_id,
                topics=[{"topic_name": name} for name in topics],
            )
            raise_for(
                answer.error_code, answer.error_message, about=f"share group {group_id!r}", group=group_id
            )
            for topic in answer.responses:
                about = f"topic {topic.topic_name!r}"
                raise_for(topic.error_code, topic.error_message, about=about, topic=topic.topic_name)

        await self._ask(group_id, ask)

    async def _ask(self, group_id: str, ask: Callable[[BrokerConnection], Awaitable[T]]) -> T:
        async def attempt() -> T:
            return await ask(await self._client.coordinator(group_id))

        return await self._client.with_retries(attempt, group_id=group_id)
