"""A transactional producer of either version that speaks to a whole broker by its requests."""

from __future__ import annotations

from typing import Any

from odradek.wire.protocol.api import ApiKey
from tests.support.whole_broker import WholeBroker, batch


class TransactionalProducer:
    """Version 2 of transactions adds partitions by its writes, and gets a new epoch with each end."""

    def __init__(self, broker: WholeBroker, name: str = "tx", *, version: int = 2) -> None:
        self.broker = broker
        self.name = name
        self.version = version
        self.producer_id = -1
        self.epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "transactional_id": self.name,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }

    async def begin(self) -> TransactionalProducer:
        """InitProducerId, after a look for the coordinator."""
        await self.broker.ask(ApiKey.FIND_COORDINATOR, 4, key_type=1, coordinator_keys=[self.name])
        answer = await self.broker.ask(
            ApiKey.INIT_PRODUCER_ID, 5, transactional_id=self.name, transaction_timeout=60_000
        )
        assert answer.error_code == 0, answer
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequences.clear()
        return self

    async def add(self, topic: str, *partitions: int) -> None:
        """AddPartitionsToTxn, which version 1 sends by itself."""
        answer = await self.broker.ask(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            3,
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[{"name": topic, "partitions": partitions}],
        )
        assert {
            int(one.partition_error_code)
            for row in answer.results_by_topic_v3_and_below
            for one in row.results_by_partition
        } == {0}

    def produce_fields(self, topic: str, partition: int, values: tuple[bytes, ...], **fields: Any) -> Any:
        """The fields of a Produce with one batch that comes next; the sequence number moves on."""
        sequence = self.sequences.get((topic, partition), 0)
        self.sequences[topic, partition] = sequence + len(values)
        header = {
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "base_sequence": sequence,
            "is_transactional": True,
            **fields,
        }
        data = {"index": partition, "records": batch(values, **header)}
        return {
            "transactional_id": self.name,
            "acks": -1,
            "timeout": 1000,
            "topic_data": [{"name": topic, "partition_data": [data]}],
        }

    @property
    def produce_version(self) -> int:
        return 12 if self.version >= 2 else 11

    async def produce(self, topic: str, *values: bytes, partition: int = 0, **fields: Any) -> int:
        """Produce one batch; the error."""
        asked = self.produce_fields(topic, partition, values, **fields)
        answer = await self.broker.ask(ApiKey.PRODUCE, self.produce_version, **asked)
        return int(answer.responses[0].partition_responses[0].error_code)

    async def commit_offsets(
        self, group_id: str, *commits: tuple[str, int, int], version: int | None = None, **fields: Any
    ) -> list[int]:
        """TxnOffsetCommit of (topic, partition, offset); the errors."""
        if version is None:
            version = 5 if self.version >= 2 else 3
        topics: dict[str, list[dict[str, Any]]] = {}
        for topic, partition, offset in commits:
            topics.setdefault(topic, []).append(
                {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
            )
        answer = await self.broker.ask(
            ApiKey.TXN_OFFSET_COMMIT,
            version,
            group_id=group_id,
            topics=[{"name": name, "partitions": rows} for name, rows in topics.items()],
            **{**self.identity, **fields},
        )
        found = {
            (topic.name, one.partition_index): int(one.error_code)
            for topic in answer.topics
            for one in topic.partitions
        }
        return [found[topic, partition] for topic, partition, _ in commits]

    async def add_offsets(self, group_id: str) -> int:
        answer = await self.broker.ask(ApiKey.ADD_OFFSETS_TO_TXN, 4, group_id=group_id, **self.identity)
        return int(answer.error_code)

    async def end(self, *, commit: bool) -> int:
        """EndTxn; the error. Version 2 continues with the pair of the answer."""
        version = 5 if self.version >= 2 else 4
        answer = await self.broker.ask(ApiKey.END_TXN, version, committed=commit, **self.identity)
        if self.version >= 2 and answer.producer_id >= 0:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return int(answer.error_code)
