"""The consumer for users: topics, in a group or alone, or chosen partitions, read by single records or in lists.

    Consumer(client, "orders", group_id="billing") shares the topics with the group, and commits on request
    Consumer(client, "orders")                       reads all partitions Consumer(client) and assign
    reads the partitions given

It gives `GroupConsumer` and `PartitionConsumer` one interface. A position is exactly behind the last returned record,
so `commit` never covers a record that the caller has not seen. Left out: automatic commits, patterns of topics,
pausing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import Final

from odradek.client.admin.logs import EARLIEST, LogAdmin
from odradek.client.arguments import topic_name
from odradek.client.checked_calls import checking_arguments
from odradek.client.client import Client, client_of
from odradek.client.consumer.ahead import ReadAhead
from odradek.client.consumer.blocks import ConsumerRecord
from odradek.client.consumer.consumer import RESET_TIMESTAMPS, PartitionConsumer
from odradek.client.consumer.decoded import RecordDecoding
from odradek.client.consumer.fetches import FetchBounds
from odradek.client.consumer.group import GroupConsumer
from odradek.client.errors import RETRIABLE_OR_LATE, ClientClosed
from odradek.client.group_metadata import GroupMetadata
from odradek.client.schemas.registry import SchemaRegistry, registry_of
from odradek.foundation.errors import InvalidRequest
from odradek.foundation.ids import TopicPartition

logger = logging.getLogger(__name__)

# A loop over records that awaits nothing else still lets other tasks run this often.
_RECORDS_BETWEEN_TURNS: Final = 500
# The longest delay until a consumer without a group reads a partition that was added to its topic.
_NEW_PARTITIONS_SECONDS: Final = 30.0


@checking_arguments("__init__", "poll", "assign", "seek", "commit", "position", "high_watermark")
class Consumer:
    """`async with Consumer(client, "orders") as consumer:`, and then `async for record in consumer:`.

    `auto_offset_reset` is where to begin without a committed offset, or if the offset no longer exists: `earliest`,
    `latest`, or `error`, which raises OffsetOutOfRange. With a group, only `commit` commits offsets. A member that asks
    for no record in `max_poll_interval_ms` loses its partitions to the others.

    With a `schema_registry`, an address or a SchemaRegistry, records have `decoded_value`. `schema_parts` names what
    the registry's serializers wrote: `key`, `value` or both.
    """

    def __init__(
        self,
        client: Client,
        *topics: str,
        group_id: str | None = None,
        group_instance_id: str | None = None,
        auto_offset_reset: str = "latest",
        is_read_committed: bool = False,
        session_timeout_ms: int = 45_000,
        max_poll_interval_ms: int = 300_000,
        heartbeat_interval_ms: int = 3_000,
        bounds: FetchBounds | None = None,
        schema_registry: SchemaRegistry | str | None = None,
        schema_parts: Collection[str] = ("value",),
    ) -> None:
        client = client_of(client, "Consumer")
        self._topics = tuple(topic_name(name) for name in topics)
        if auto_offset_reset not in (*RESET_TIMESTAMPS, "error"):
            raise InvalidRequest(
                f"auto_offset_reset is {auto_offset_reset!r}; it can be earliest, latest or error"
            )
        if group_id is not None and not topics:
            raise InvalidRequest(
                f"group {group_id!r} needs topics: Consumer(client, 'orders', group_id={group_id!r})"
            )
        self._client = client
        self._logs = LogAdmin(client)
        self._reset = auto_offset_reset
        self._is_read_committed = is_read_committed
        self._source: PartitionConsumer | GroupConsumer
        if group_id is not None:
            self._source = GroupConsumer(
                client,
                group_id,
                self._topics,
                instance_id=group_instance_id,
                on_no_offset=auto_offset_reset,
                session_timeout_ms=session_timeout_ms,
                rebalance_timeout_ms=max_poll_interval_ms,
                heartbeat_interval_ms=heartbeat_interval_ms,
                bounds=bounds,
                is_read_committed=is_read_committed,
            )
        else:
            self._source = PartitionConsumer(
                client, bounds=bounds, is_read_committed=is_read_committed, on_out_of_range=auto_offset_reset
            )
        self._decoding = (
            None if schema_registry is None else RecordDecoding(registry_of(schema_registry), schema_parts)
        )
        self._is_started = False
        self._is_closed = False
        self._is_assigned = bool(topics)
        self._since_turn = 0
        self._look_for_partitions_at = 0.0

    async def __aenter__(self) -> Consumer:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Begin: find the partitions, or join the group at the first read.

        Raises UnknownTopicOrPartition, ConnectionFailed, ClientTimeout.
        """
        if self._is_started or self._is_closed:
            raise ClientClosed(
                f"the consumer was {'closed' if self._is_closed else 'started'} before; create another"
            )
        self._is_started = True
        if isinstance(self._source, GroupConsumer):
            await self._source.start()
        elif self._topics:
            await self._assign_all()

    async def close(self) -> None:
        """Stop reading and leave the group. It commits nothing."""
        self._client.check_loop()
        self._is_closed = True
        await self._source.close()

    # --- reading --------------------------------------------------------------------------------------------------

    def __aiter__(self) -> Consumer:
        return self

    async def __anext__(self) -> ConsumerRecord:
        """The next record. Waits for one without a time limit. Raises as `poll`."""
        self._require_started()  # the loop is checked when it has to wait
        self._since_turn += 1
        if self._since_turn >= _RECORDS_BETWEEN_TURNS:
            self._since_turn = 0
            await asyncio.sleep(0)
        record = self._source.take_next()
        if record is not None:
            return record if self._decoding is None else await self._add_schema(record)
        while True:
            found = await self.poll(records_max=1)
            if found:
                return found[0]

    async def poll(self, *, records_max: int = 500, timeout_ms: int = 1_000) -> list[ConsumerRecord]:
        """Up to `records_max` records, as soon as there are any; an empty list when the time is up.

        Raises a partition's final error: OffsetOutOfRange, LogTruncated, UnknownTopicOrPartition, CorruptRecord. Raises
        FencedInstanceId when another member has replaced this one.
        """
        await self._prepare_to_read()
        records = await self._source.poll(records_max=records_max, timeout_ms=timeout_ms)
        return records if self._decoding is None else await self._add_schemas(records)

    async def read_ahead(self, *, records_max: int, timeout_ms: int) -> ReadAhead:
        """As `poll`, for the synchronous form; see `PartitionConsumer.read_ahead`."""
        await self._prepare_to_read()
        ahead = await self._source.read_ahead(records_max=records_max, timeout_ms=timeout_ms)
        if self._decoding is not None:
            # Where this is interrupted, the next call puts the records back.
            ahead.replace_records(await self._decoding.add_schemas(ahead.records))
        return ahead

    async def _add_schema(self, record: ConsumerRecord) -> ConsumerRecord:
        assert self._decoding is not None
        return self._decoding.add_known(record) or (await self._add_schemas([record]))[0]

    async def _add_schemas(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """A caller that gives up has not got these records, so they are read again."""
        assert self._decoding is not None
        try:
            return await self._decoding.add_schemas(records)
        except BaseException:
            first: dict[TopicPartition, int] = {}
            for record in records:
                first.setdefault(TopicPartition(record.topic, record.partition), record.offset)
            for key in first.keys() & set(self._source.assignment):
                self._source.seek(key, first[key])
            raise

    @property
    def is_interrupted(self) -> bool:
        """Whether the next record needs another `read_ahead` first. Any thread may ask."""
        return self._is_closed or self._source.is_interrupted

    async def _prepare_to_read(self) -> None:
        self._require_running()
        if not self._is_assigned:
            raise InvalidRequest(
                "there is nothing to read: name topics, as in Consumer(client, 'orders'), or call consumer.assign"
            )
        await self._take_new_partitions()

    # --- positions ------------------------------------------------------------------------------------------------

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that the consumer reads now."""
        return self._source.assignment

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The offset of the next record of each partition that is read now."""
        return {key: self._source.position(key) for key in self._source.assignment}

    def group_metadata(self) -> GroupMetadata:
        """The group and this member of it, for `Producer.send_offsets_to_transaction`.

        From then on the consumer commits nothing by itself, also not when the group changes: the transactions do.
        Raises InvalidRequest without a group, and IllegalGeneration while the group changes: the next read joins.
        """
        return self._member().group_metadata()

    async def seek_to_committed(self) -> None:
        """Go back to what the group has committed, as after a transaction that was aborted. Raises InvalidRequest
        without a group.
        """
        self._require_running()
        await self._member().seek_to_committed()

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record of a partition. Raises InvalidRequest if it is not assigned."""
        return self._source.position(partition)

    def high_watermark(self, partition: TopicPartition) -> int:
        """The end of the readable records at the last fetch; -1 before the first. Raises as `position`."""
        return self._source.high_watermark(partition)

    async def assign(self, offsets: Mapping[TopicPartition, int | str]) -> None:
        """Read exactly these partitions, each from an offset, or from `earliest` or `latest`. Raises InvalidRequest for
        a consumer with a group, and UnknownTopicOrPartition.
        """
        self._require_running()
        if isinstance(self._source, GroupConsumer):
            raise InvalidRequest(
                "the group assigns the partitions; a consumer without group_id can be assigned partitions"
            )
        self._source.assign(await self._offsets(offsets))
        self._topics = ()
        self._is_assigned = True

    async def seek(self, partition: TopicPartition, offset: int | str) -> None:
        """Continue from an offset, `earliest` or `latest`. Raises InvalidRequest if the partition is not assigned."""
        self._require_running()
        self._source.position(partition)
        self._source.seek(partition, (await self._offsets({partition: offset}))[partition])

    async def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit these offsets, each of the next record to read. Without any, the positions behind all returned records
        are committed. While the group changes nothing is committed, and the next read joins again. Raises
        InvalidRequest without a group or for a partition that is not assigned.
        """
        self._require_running()
        await self._member().commit(offsets)

    # --- internals ------------------------------------------------------------------------------------------------

    def _member(self) -> GroupConsumer:
        if not isinstance(self._source, GroupConsumer):
            raise InvalidRequest(
                "only a member of a group commits: Consumer(client, 'orders', group_id='billing')"
            )
        return self._source

    def _require_running(self) -> None:
        self._client.check_loop()
        self._require_started()

    def _require_started(self) -> None:
        if self._is_closed:
            raise ClientClosed("the consumer is closed")
        if not self._is_started:
            raise ClientClosed(
                "the consumer is not started: write `async with Consumer(…) as consumer:`, or await consumer.start()"
            )

    async def _offsets(self, offsets: Mapping[TopicPartition, int | str]) -> dict[TopicPartition, int]:
        """Offsets with `earliest` and `latest` as numbers."""
        named: dict[TopicPartition, int] = {}
        found: dict[TopicPartition, int] = {}
        for key, offset in offsets.items():
            partition = TopicPartition(topic_name(key[0]), key[1])
            if isinstance(offset, int) and offset >= 0:
                found[partition] = offset
            elif isinstance(offset, str) and offset in RESET_TIMESTAMPS:
                named[partition] = RESET_TIMESTAMPS[offset]
            else:
                raise InvalidRequest(
                    f"the offset of partition {partition} is {offset!r}; it can be 0 or more, 'earliest' or 'latest'"
                )
        listed = await self._logs.list_offsets(named, read_committed=self._is_read_committed)
        return found | {key: answer.offset for key, answer in listed.items()}

    async def _partitions(self) -> list[TopicPartition]:
        cluster = await self._client.with_retries(lambda: self._client.refresh(self._topics))
        return [key for name in self._topics for key in cluster.partitions(name)]

    async def _assign_all(self) -> None:
        assert isinstance(self._source, PartitionConsumer)
        start = "latest" if self._reset == "error" else self._reset
        partitions = await self._client.with_retries(self._partitions)
        self._source.assign(await self._offsets(dict.fromkeys(partitions, start)))
        self._look_for_partitions_at = asyncio.get_running_loop().time() + _NEW_PARTITIONS_SECONDS

    async def _take_new_partitions(self) -> None:
        """Read partitions that were added to the topics, from their beginning: all their records are new."""
        now = asyncio.get_running_loop().time()
        source = self._source
        if (
            not isinstance(source, PartitionConsumer)
            or not self._topics
            or now < self._look_for_partitions_at
        ):
            return
        self._look_for_partitions_at = now + _NEW_PARTITIONS_SECONDS
        try:
            new = set(await self._partitions()) - set(source.assignment)
            if new:
                starts = await self._logs.offsets_at(new, EARLIEST)
                source.assign({key: source.position(key) for key in source.assignment} | starts)
        except RETRIABLE_OR_LATE as failure:
            logger.debug("new partitions are looked for again later: %s", failure)
