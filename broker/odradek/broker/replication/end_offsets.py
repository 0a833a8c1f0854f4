"""Asks the leaders of partitions for their end offsets (ListOffsets), as readers of all records see them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from odradek.broker.replication.broker_transport import BrokerTransport, MessageRequest
from odradek.foundation.errors import FrameError, LeaderNotAvailable, OdradekError
from odradek.foundation.ids import TopicPartition, by_topic
from odradek.metadata.image.image import NO_LEADER, ImageHolder
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.errors import NONE, error_name, error_of
from odradek.wire.protocol.messages import request

if TYPE_CHECKING:
    from odradek.wire.protocol.responses.records import ListOffsetsResponse

VERSION: Final = 9
_LATEST: Final = -1
_NO_REPLICA: Final = -1

EndOffsets = Mapping[TopicPartition, int | OdradekError]


class EndOffsetClient:
    """`transport` carries requests to brokers, this one among them."""

    def __init__(self, transport: BrokerTransport, images: ImageHolder) -> None:
        self._transport = transport
        self._images = images

    async def ask(self, partitions: Collection[TopicPartition]) -> EndOffsets:
        """The end offset of each partition, or the error that it met."""
        image = self._images.current
        by_leader: dict[int, list[TopicPartition]] = {}
        for one in partitions:
            topic = image.topics.get(one.topic)
            is_known = topic is not None and one.partition < len(topic.partitions)
            leader = topic.partitions[one.partition].leader if topic is not None and is_known else NO_LEADER
            by_leader.setdefault(leader if leader in image.brokers else NO_LEADER, []).append(one)
        answers = await asyncio.gather(*(self._ask_leader(*asked) for asked in by_leader.items()))
        return {one: offset for answer in answers for one, offset in answer.items()}

    async def _ask_leader(self, broker_id: int, partitions: Sequence[TopicPartition]) -> EndOffsets:
        error: OdradekError = LeaderNotAvailable("no broker leads the partition now; try again")
        if broker_id == NO_LEADER:
            return dict.fromkeys(partitions, error)
        asked = request(
            ApiKey.LIST_OFFSETS,
            VERSION,
            replica_id=_NO_REPLICA,
            topics=[
                {
                    "name": topic,
                    "partitions": [{"partition_index": number, "timestamp": _LATEST} for number in numbers],
                }
                for topic, numbers in by_topic(partitions).items()
            ],
        )
        try:
            answer: ListOffsetsResponse = await self._transport.send(
                broker_id, MessageRequest(ApiKey.LIST_OFFSETS, VERSION, asked)
            )
        except (OdradekError, FrameError, OSError) as failure:
            error = LeaderNotAvailable(f"broker {broker_id} has not answered: {failure}")
            return dict.fromkeys(partitions, error)
        found: dict[TopicPartition, int | OdradekError] = dict.fromkeys(partitions, error)
        for topic in answer.topics:
            for one in topic.partitions:
                code = int(one.error_code)
                failed = error_of(code, f"its leader answered {error_name(code)}") if code != NONE else None
                found[TopicPartition(topic.name, one.partition_index)] = failed or one.offset
        return found
