"""The dead letters of queues (KIP-1191): what a share group has given up, and its way back.

A letter names the record by headers. It has a copy of the record where the group's settings want one. The record itself
stays in its topic until that deletes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from odradek.client.admin.configs import ConfigAdmin
from odradek.client.admin.groups import GroupAdmin
from odradek.client.admin.logs import EARLIEST, LATEST, LogAdmin
from odradek.client.admin.queues import QueueAdmin
from odradek.client.client import Client
from odradek.client.consumer.blocks import ConsumerRecord
from odradek.client.consumer.consumer import PartitionConsumer
from odradek.client.errors import ClientTimeout
from odradek.client.producer.producer import Producer
from odradek.client.results import CommittedOffset, ResourceType
from odradek.foundation.errors import InvalidRequest, OdradekError, OffsetOutOfRange
from odradek.foundation.ids import TopicPartition

TOPIC_SETTING: Final = "errors.deadletterqueue.topic.name"
_PREFIX: Final = "__dlq.errors."
_GROUP: Final = f"{_PREFIX}group"
_WAIT_SECONDS_MAX: Final = 30.0
_POLL_MS: Final = 500


class GivenUpRecord(NamedTuple):
    """A record that a queue has given up. `letter` is what the dead-letter topic has of it."""

    key: TopicPartition
    offset: int
    delivery_count: int
    why: str
    letter: ConsumerRecord


class GivenBackRecord(NamedTuple):
    """A letter, and where its record was written again; or why it was not."""

    letter: GivenUpRecord
    offset: int | None
    failure: OdradekError | None = None


class DeadLetterAdmin:
    """The letters of one queue. Committed offsets of the group `returned_by` say which of them were given back."""

    def __init__(self, client: Client, group_id: str) -> None:
        self._client = client
        self._group_id = group_id
        self.returned_by = f"{group_id}.dead-letters"

    async def find_topic(self) -> str:
        """The queue's dead-letter topic. Raises InvalidRequest where it has none, and GroupIdNotFound for no queue."""
        found = await ConfigAdmin(self._client).describe(
            ResourceType.GROUP, self._group_id, keys=[TOPIC_SETTING]
        )
        name = next((one.value for one in found if one.value), None)
        if name is None:
            await QueueAdmin(self._client).describe(self._group_id)
            raise InvalidRequest(
                f"queue {self._group_id!r} has no dead-letter topic: what it gives up is not kept; "
                f"`odradek configs set group {self._group_id} {TOPIC_SETTING}=dlq.NAME` names one"
            )
        return name

    async def list_letters(
        self, *, letters_max: int
    ) -> tuple[list[GivenUpRecord], dict[TopicPartition, int]]:
        """The letters that were not given back, the oldest of each partition first, and the offsets behind them.

        A record that was written twice is in it once. Raises UnknownTopicOrPartition, and ClientTimeout where the topic
        has not answered for long.
        """
        topic = await self.find_topic()
        cluster = await self._client.with_retries(lambda: self._client.refresh((topic,)))
        keys = cluster.partitions(topic)
        logs = LogAdmin(self._client)
        firsts, ends = await logs.offsets_at(keys, EARLIEST), await logs.offsets_at(keys, LATEST)
        done = await GroupAdmin(self._client).offsets(self.returned_by, keys)
        starts = {key: max(firsts[key], done[key].offset if key in done else 0) for key in keys}
        found: dict[tuple[TopicPartition, int], GivenUpRecord] = {}
        behind = dict(starts)
        async with PartitionConsumer(self._client, on_out_of_range="earliest") as consumer:
            consumer.assign({key: start for key, start in starts.items() if start < ends[key]})
            loop = asyncio.get_running_loop()
            answered_at = loop.time()
            while any(consumer.position(key) < ends[key] for key in consumer.assignment):
                records = await consumer.poll(timeout_ms=_POLL_MS)
                if records:
                    answered_at = loop.time()
                elif loop.time() - answered_at > _WAIT_SECONDS_MAX:
                    raise ClientTimeout(
                        f"topic {topic!r} has not answered for {_WAIT_SECONDS_MAX:g} s; try again"
                    )
                for record in records:
                    letter = parse_letter(record)
                    behind[TopicPartition(record.topic, record.partition)] = record.offset + 1
                    if letter is not None and dict(record.headers).get(_GROUP) == self._group_id.encode():
                        found.setdefault((letter.key, letter.offset), letter)
                    if len(found) >= letters_max:
                        return list(found.values()), behind
        return list(found.values()), behind

    async def give_back(
        self, letters: Sequence[GivenUpRecord], behind: Mapping[TopicPartition, int]
    ) -> list[GivenBackRecord]:
        """Write the records to their topics again, and then remember it. All groups that read these topics see them.

        A crash between the two writes them twice. What cannot be written is asked for again the next time, with all
        behind it in its partition. A record that nothing has any more is passed over.
        """
        found: list[GivenBackRecord] = []
        done = dict(behind)
        async with Producer(self._client) as producer:
            for letter in letters:
                place = TopicPartition(letter.letter.topic, letter.letter.partition)
                if letter.letter.offset >= done[place]:
                    continue
                try:
                    found.append(GivenBackRecord(letter, await self._write_again(producer, letter)))
                except OdradekError as failure:
                    found.append(GivenBackRecord(letter, None, failure))
                    if not isinstance(failure, OffsetOutOfRange):
                        done[place] = letter.letter.offset
        offsets = {key: CommittedOffset(offset) for key, offset in done.items()}
        await GroupAdmin(self._client).alter_offsets(self.returned_by, offsets)
        return found

    async def _write_again(self, producer: Producer, letter: GivenUpRecord) -> int:
        record = await self._find_record(letter)
        written = await producer.send_and_wait(
            letter.key.topic,
            record.value,
            key=record.key,
            headers=[one for one in record.headers if not one[0].startswith(_PREFIX)],
            partition=letter.key.partition,
        )
        return written.offset

    async def _find_record(self, letter: GivenUpRecord) -> ConsumerRecord:
        """The record where it is kept, else the letter's copy. Raises OffsetOutOfRange where there is neither."""
        logs = LogAdmin(self._client)
        first = (await logs.offsets_at([letter.key], EARLIEST))[letter.key]
        end = (await logs.offsets_at([letter.key], LATEST))[letter.key]
        if first <= letter.offset < end:
            async with PartitionConsumer(self._client, on_out_of_range="error") as consumer:
                consumer.assign({letter.key: letter.offset})
                records = await consumer.poll(records_max=1, timeout_ms=round(_WAIT_SECONDS_MAX * 1000))
            if not records and consumer.position(letter.key) <= letter.offset:
                raise ClientTimeout(f"{letter.key} has not answered for {_WAIT_SECONDS_MAX:g} s; try again")
            # Compaction may have removed it, and then a later record comes, or none.
            if records and records[0].offset == letter.offset:
                return records[0]
        if letter.letter.key is None and letter.letter.value is None:
            raise OffsetOutOfRange(
                f"record {letter.offset} of {letter.key} is deleted, and its letter has no copy of it"
            )
        return letter.letter


def parse_letter(record: ConsumerRecord) -> GivenUpRecord | None:
    """What a record of a dead-letter topic says; None for one that is no letter."""
    headers = {name: value or b"" for name, value in record.headers if name.startswith(_PREFIX)}
    try:
        return GivenUpRecord(
            TopicPartition(headers[f"{_PREFIX}topic"].decode(), int(headers[f"{_PREFIX}partition"].decode())),
            int(headers[f"{_PREFIX}offset"].decode()),
            int(headers[f"{_PREFIX}delivery.count"].decode()),
            headers.get(f"{_PREFIX}message", b"").decode(errors="replace"),
            record,
        )
    except (KeyError, ValueError):
        return None
