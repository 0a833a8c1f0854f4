"""The two requests of a producer: InitProducerId, and Produce to the leader of partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from odradek.client.client import Client
from odradek.client.errors import error_for, raise_for
from odradek.client.producer.batches import ProducerIdAndEpoch
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition
from odradek.wire.protocol.api import ApiKey
from odradek.wire.records.compression import Compression

if TYPE_CHECKING:
    from datetime import datetime

ACKS_ALL = -1
# From 13 on topics go by id, which only matters if a topic is created again between two requests.
PRODUCE_VERSIONS = (3, 12)
# By whether partitions join a transaction by what is written to them (TV2), which 12 means.
TRANSACTIONAL_PRODUCE_VERSIONS = {False: (3, 11), True: (12, 12)}
# Brokers before it would store bytes that they cannot read (KIP-110).
ZSTD_PRODUCE_VERSION = 7
INIT_PRODUCER_ID_VERSIONS = (0, 5)
TRANSACTION_TIMEOUT_MS_NONE = 2**31 - 1


class SendableBatch(Protocol):
    """A finished batch and its partition."""

    @property
    def topic_partition(self) -> TopicPartition: ...

    @property
    def data(self) -> bytearray | None: ...


class BatchOutcome(NamedTuple):
    """The base offset of a written batch; -1 without acknowledgements, or for a duplicate with an unknown offset."""

    base_offset: int
    log_append_time_ms: int


def produce_versions(compression: Compression, *, is_implicit: bool | None) -> tuple[int, int]:
    """The versions for a codec, outside of transactions (None) or within them, by the generation of their protocol."""
    lowest, highest = PRODUCE_VERSIONS if is_implicit is None else TRANSACTIONAL_PRODUCE_VERSIONS[is_implicit]
    return (max(lowest, ZSTD_PRODUCE_VERSION) if compression is Compression.ZSTD else lowest), highest


async def initialize_producer_id(client: Client) -> ProducerIdAndEpoch:
    """A new id for an idempotent producer. Raises the broker's error."""
    response = await (await client.any_broker()).request(
        ApiKey.INIT_PRODUCER_ID,
        versions=INIT_PRODUCER_ID_VERSIONS,
        transactional_id=None,
        transaction_timeout=TRANSACTION_TIMEOUT_MS_NONE,
        producer_id=-1,
        producer_epoch=-1,
    )
    raise_for(response.error_code, about="a producer id")
    return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)


async def produce(
    client: Client,
    leader: int,
    batches: Sequence[SendableBatch],
    *,
    acks: int,
    transactional_id: str | None = None,
    versions: tuple[int, int] = PRODUCE_VERSIONS,
) -> dict[TopicPartition, BatchOutcome | OdradekError]:
    """Send the batches, one per partition, in one request. Raises the error of a request that failed as a whole."""
    topics: dict[str, list[dict[str, object]]] = {}
    for batch in batches:
        topic, partition = batch.topic_partition
        topics.setdefault(topic, []).append({"index": partition, "records": batch.data})
    fields: dict[str, Any] = {
        "transactional_id": transactional_id,
        "acks": acks,
        "timeout": client.request_timeout_ms,
        "topic_data": [{"name": name, "partition_data": rows} for name, rows in topics.items()],
    }
    connection = await client.broker(leader)
    if acks == 0:
        await connection.send_only(ApiKey.PRODUCE, versions=versions, **fields)
        return {batch.topic_partition: BatchOutcome(-1, -1) for batch in batches}
    response = await connection.request(ApiKey.PRODUCE, versions=versions, **fields)
    outcomes: dict[TopicPartition, BatchOutcome | OdradekError] = {}
    for topic_answer in response.responses:
        for answer in topic_answer.partition_responses:
            key = TopicPartition(topic_answer.name, answer.index)
            failure = error_for(
                answer.error_code,
                getattr(answer, "error_message", None),
                about=f"partition {key}",
                topic=key.topic,
            )
            outcomes[key] = failure or BatchOutcome(
                answer.base_offset, _append_time_ms(answer.log_append_time)
            )
    return outcomes


def _append_time_ms(append_time: datetime | None) -> int:
    return -1 if append_time is None else round(append_time.timestamp() * 1000)
