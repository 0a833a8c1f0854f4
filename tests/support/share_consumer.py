"""A share consumer's requests to one broker (KIP-932): it fetches, acknowledges and leaves, one request at a time."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from odradek.broker.share_states.states import NOT_STARTED, ShareKey, ShareState
from odradek.network.connection import Connection
from odradek.wire.protocol.api import ApiKey
from tests.support.share_states import MemoryShareStates
from tests.support.whole_broker import WholeBroker, decoded

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
# (first offset, last offset, delivery count)
Acquired = tuple[int, int, int]


class StoppableStates(MemoryShareStates):
    """As a broker has them."""

    requests = 0

    async def stop(self) -> None:
        """Nothing of it runs."""


def with_memory_states(broker: WholeBroker) -> MemoryShareStates:
    """Let the broker keep states of share-partitions in memory, before it has used any."""
    states = StoppableStates()
    broker.broker.coordinators.started_share_states = states  # type: ignore[assignment]
    return states


class ShareConsumer:
    """One member of a share group that fetches `topics` from its broker, over a connection of its own."""

    _connections = 100

    def __init__(
        self,
        broker: WholeBroker,
        topics: Sequence[str] = ("t",),
        *,
        group_id: str = "g",
        member_id: str = "m",
        partitions: int = 1,
        version: int = 2,
    ) -> None:
        ShareConsumer._connections += 1
        self.broker = broker
        self.group_id, self.member_id = group_id, member_id
        self.topics, self.partitions = tuple(topics), partitions
        self.version = version
        self.epoch = 0
        self.connection = Connection(
            id=ShareConsumer._connections, listener_name="PLAINTEXT", peer=("client.test", 5000)
        )
        self.connection.principal = broker.connection.principal
        self.acquired: list[Acquired] = []

    def initialize(self, states: MemoryShareStates, *, start: int = NOT_STARTED) -> None:
        """Do what the group coordinator does with a new member: initialize the states of its partitions."""
        for topic in self.topics:
            for index in range(self.partitions):
                states.states.setdefault(self.key(topic, index), ShareState(0, start))

    def key(self, topic: str = "t", index: int = 0) -> ShareKey:
        return ShareKey(self.group_id, self.topic_id(topic), index)

    def topic_id(self, topic: str) -> Any:
        return self.broker.broker.images.current.topics[topic].id

    async def _ask(self, api: ApiKey, fields: dict[str, Any]) -> Any:
        common = {"group_id": self.group_id, "member_id": self.member_id, "share_session_epoch": self.epoch}
        answer = self.broker.send(api, self.version, self.connection, **{**common, **fields})
        if inspect.isawaitable(answer):
            answer = await answer
        message = decoded(api, self.version, answer)
        if not message.error_code:
            self.epoch = self.epoch + 1 if self.epoch >= 0 else 0
        return message

    async def fetch(
        self, *acknowledged: tuple[int, int, list[int]], topic: str = "t", index: int = 0, **fields: Any
    ) -> Any:
        """One ShareFetch; `acknowledged` are (first, last, types) of one partition. The answer."""
        topics: list[dict[str, Any]] = []
        if acknowledged:
            topics = self._acknowledging(topic, index, acknowledged)
        elif self.epoch == 0:
            topics = [
                {
                    "topic_id": self.topic_id(name),
                    "partitions": [
                        {"partition_index": number, "acknowledgement_batches": []}
                        for number in range(self.partitions)
                    ],
                }
                for name in self.topics
            ]
        values: dict[str, Any] = {
            "max_wait": 0,
            "min_bytes": 1,
            "max_bytes": 1 << 24,
            "max_records": 500,
            "batch_size": 500,
            "topics": topics,
            "forgotten_topics_data": [],
            **fields,
        }
        if self.version >= 2:
            values = {"share_acquire_mode": 0, "is_renew_ack": False, **values}
        answer = await self._ask(ApiKey.SHARE_FETCH, values)
        self.acquired = [
            (one.first_offset, one.last_offset, one.delivery_count)
            for given in answer.responses
            for part in given.partitions
            for one in part.acquired_records
        ]
        return answer

    async def acquire(self, **fields: Any) -> list[Acquired]:
        """What one fetch acquires, where nothing fails."""
        answer = await self.fetch(**fields)
        assert answer.error_code == 0, answer.error_message
        for given in answer.responses:
            for part in given.partitions:
                assert (part.error_code, part.acknowledge_error_code) == (0, 0), part
        return self.acquired

    async def acknowledge(
        self, *acknowledged: tuple[int, int, list[int]], topic: str = "t", index: int = 0, **fields: Any
    ) -> Any:
        """One ShareAcknowledge; the answer."""
        values: dict[str, Any] = {"topics": self._acknowledging(topic, index, acknowledged), **fields}
        if self.version >= 2:
            values = {"is_renew_ack": False, **values}
        return await self._ask(ApiKey.SHARE_ACKNOWLEDGE, values)

    async def must_acknowledge(self, *acknowledged: tuple[int, int, list[int]], **fields: Any) -> None:
        answer = await self.acknowledge(*acknowledged, **fields)
        assert answer.error_code == 0, answer.error_message
        assert [part.error_code for given in answer.responses for part in given.partitions] == [0]

    async def leave(self) -> Any:
        """The last request of its session."""
        self.epoch = -1
        return await self.acknowledge(topics=[])

    def _acknowledging(
        self, topic: str, index: int, acknowledged: Sequence[tuple[int, int, list[int]]]
    ) -> list[dict[str, Any]]:
        batches = [
            {"first_offset": first, "last_offset": last, "acknowledge_types": types}
            for first, last, types in acknowledged
        ]
        return [
            {
                "topic_id": self.topic_id(topic),
                "partitions": [{"partition_index": index, "acknowledgement_batches": batches}],
            }
        ]
