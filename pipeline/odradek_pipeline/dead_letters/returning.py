"""Sends dead letters back to their topics, each once: letters and the group's position are one transaction.

The transactional id is the group's. A second run that begins aborts what the first one has open, and the first is
refused from then on. A run that is killed leaves nothing, or a whole transaction.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from odradek.client.client import Client
from odradek.client.producer.producer import Producer
from odradek.foundation.ids import TopicPartition
from odradek.foundation.transaction_errors import ProducerFenced
from odradek_pipeline.dead_letters.headers import Letter, headers_to_return
from odradek_pipeline.dead_letters.reading import Found, ask_brokers, group_of, read_letter_log, scan_letters
from odradek_pipeline.errors import FencedError, RecreatedError
from odradek_pipeline.runs.steps import Steps

RETURNED: Final = "returned"
_TRANSACTION_TIMEOUT_MS: Final = 60_000


@dataclass(slots=True)
class Returned:
    letters: int = 0
    repeated: int = 0
    exhausted: int = 0
    others: int = 0
    by_topic: dict[str, int] = field(default_factory=dict)


def return_letters(
    settings: Mapping[str, str], topic: str, *, attempts_max: int, batch_letters: int, steps: Steps
) -> Returned:
    """Send back all letters of `topic` that wait now and were tried fewer than `attempts_max` times.

    A transaction has up to `batch_letters`. Raises RecreatedError for a letter whose topic was made again, FencedError
    when another run took over, and PipelineError.
    """

    async def work(client: Client) -> Returned:
        return await _Return(client, topic, attempts_max, batch_letters, steps).run()

    return ask_brokers(settings, topic, work)


class _Return:
    def __init__(
        self, client: Client, topic: str, attempts_max: int, batch_letters: int, steps: Steps
    ) -> None:
        self._client = client
        self._topic = topic
        self._attempts_max = attempts_max
        self._batch_letters = batch_letters
        self._steps = steps
        self._ids: dict[str, tuple[str, int]] = {}
        self._returned = Returned()

    async def run(self) -> Returned:
        group = group_of(self._topic)
        try:
            async with Producer(
                self._client, transactional_id=group, transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS
            ) as producer:
                # The positions after the producer's start: it ends what an earlier run has left open.
                log = await read_letter_log(self._client, self._topic)
                batch: list[Found] = []
                async for one in scan_letters(self._client, log):
                    if one.is_waiting:
                        batch.append(one)
                    if len(batch) == self._batch_letters:
                        await self._send(producer, group, batch)
                        batch = []
                if batch:
                    await self._send(producer, group, batch)
        except ProducerFenced as failure:
            raise FencedError(
                f"another run returns the letters of {self._topic} now. This one stopped at a whole transaction"
            ) from failure
        return self._returned

    async def _send(self, producer: Producer, group: str, batch: list[Found]) -> None:
        chosen = [(one, one.letter) for one in batch if self._is_due(one)]
        for _, letter in chosen:
            assert letter is not None
            await self._check(letter)
        async with producer.transaction():
            for one, letter in chosen:
                assert letter is not None
                await producer.send(
                    letter.origin.topic,
                    one.record.value,
                    key=one.record.key,
                    headers=headers_to_return(letter),
                    partition=letter.origin.partition,
                    timestamp_ms=max(letter.timestamp_ms, 0),
                )
            ends: dict[TopicPartition, int] = {}
            for one in batch:
                ends[one.partition] = max(ends.get(one.partition, 0), one.record.offset + 1)
            await producer.send_offsets_to_transaction(ends, group)
        self._count(batch, [letter for _, letter in chosen if letter is not None])

    def _is_due(self, one: Found) -> bool:
        return (
            one.letter is not None and not one.is_repeated and one.letter.origin.attempt < self._attempts_max
        )

    def _count(self, batch: list[Found], sent: list[Letter]) -> None:
        counts = self._returned
        counts.letters += len(sent)
        counts.others += sum(one.letter is None for one in batch)
        counts.repeated += sum(one.is_repeated for one in batch)
        counts.exhausted += sum(
            one.letter is not None and not one.is_repeated and not self._is_due(one) for one in batch
        )
        for one in sent:
            counts.by_topic[one.origin.topic] = counts.by_topic.get(one.origin.topic, 0) + 1
        self._steps(RETURNED, letters=counts.letters)

    async def _check(self, letter: Letter) -> None:
        """Raises RecreatedError for a letter of a topic that was made again, or has fewer partitions."""
        origin = letter.origin
        if origin.topic not in self._ids:
            cluster = await self._client.with_retries(lambda: self._client.refresh([origin.topic]))
            self._ids[origin.topic] = (
                str(cluster.topic(origin.topic).id),
                len(cluster.partitions(origin.topic)),
            )
        topic_id, partitions = self._ids[origin.topic]
        try:
            is_same = uuid.UUID(origin.topic_id) == uuid.UUID(topic_id)
        except ValueError:
            is_same = False
        if not is_same or origin.partition >= partitions:
            raise RecreatedError(
                f"recreated: a dead letter is of topic {origin.topic!r} with id {origin.topic_id}, and the topic has "
                f"id {topic_id} now. Letters before it were returned. Move the group {group_of(self._topic)} behind it"
            )
