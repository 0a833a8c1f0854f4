"""Members of consumer groups in the newer protocol (KIP-848), which the product's client leaves out."""

from __future__ import annotations

import uuid

from odradek.client.client import Client
from odradek.client.errors import raise_for
from odradek.foundation.ids import TopicPartition
from odradek.wire.protocol.api import ApiKey
from tests.simulation.cluster import TOPIC
from tests.simulation.group_checks import GroupWatch
from tests.simulation.heartbeat_members import REVOCATION_MS_MAX, Beat, HeartbeatMember, HeartbeatMembers


class ConsumerMembers(HeartbeatMembers):
    """A group of the newer protocol."""

    def _make_member(self, client: Client, name: str, member_id: str) -> HeartbeatMember:
        return _ConsumerMember(client, self.watch, name, member_id=member_id)


class _ConsumerMember(HeartbeatMember):
    def __init__(self, client: Client, watch: GroupWatch, name: str, *, member_id: str) -> None:
        super().__init__(client, watch, name, member_id=member_id)
        self._topic_id: uuid.UUID | None = None

    async def _beat(self, epoch: int) -> Beat:
        # A broker that has just begun may not know the topic yet, and then its client does not either. The id lasts.
        if (topic := self._client.cluster.topics.get(TOPIC)) is not None:
            self._topic_id = topic.id
        owned = [{"topic_id": self._topic_id, "partitions": [key.partition for key in self._owned]}]
        connection = await self._client.coordinator(self._watch.group_id)
        answer = await connection.request(
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            versions=(0, 0),
            group_id=self._watch.group_id,
            member_id=self._member_id,
            member_epoch=epoch,
            instance_id=None,
            rack_id=None,
            rebalance_timeout=REVOCATION_MS_MAX,
            subscribed_topic_names=[TOPIC],
            server_assignor=None,
            topic_partitions=owned if self._owned else [],
        )
        raise_for(int(answer.error_code), answer.error_message, about=f"group {self._watch.group_id!r}")
        if answer.assignment is None:
            return Beat(int(answer.member_epoch), None)
        numbers = (number for topic in answer.assignment.topic_partitions for number in topic.partitions)
        return Beat(int(answer.member_epoch), tuple(TopicPartition(TOPIC, int(number)) for number in numbers))
