"""The order of a mirror's batches at the target: retries keep it, sequences never change, and five are under way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.client.producer.batches import ProducerIdAndEpoch
from odradek.client.producer.requests import BatchOutcome
from odradek.foundation.errors import CorruptRecord, NotLeaderOrFollower, OdradekError, RecordTooLarge
from odradek.foundation.ids import TopicPartition
from odradek.foundation.mirror_limits import MIRROR_PRODUCES_IN_FLIGHT_MAX
from odradek.foundation.transaction_errors import OutOfOrderSequence
from odradek.mirror import produce_queue
from odradek.mirror.batch_passing import TargetRules, ready_batches
from odradek.mirror.errors import BatchRefused
from odradek.mirror.produce_queue import OutgoingBatch, ProduceQueue
from odradek.wire.records.batch import read_header
from odradek.wire.records.builder import build_batch

SOURCE, TARGET = TopicPartition("t", 0), TopicPartition("a.t", 0)
Answer = Callable[[int, int], OdradekError | None]


class Leader:
    """A partition's leader: takes batches in the order of their sequences, and repeats as a broker does."""

    def __init__(self, refuse: Answer) -> None:
        self._refuse = refuse
        self.log: list[int] = []
        self.requests = 0
        self.under_way = self.most_under_way = 0

    async def produce(self, _: object, leader: int, batches: Sequence[OutgoingBatch], **fields: Any) -> Any:
        [batch] = batches
        assert batch.data is not None
        header = read_header(batch.data)
        self.requests += 1
        number = self.requests
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        failure = self._refuse(number, header.base_sequence)
        if failure is not None:
            return {batch.topic_partition: failure}
        if header.base_sequence in self.log:
            return {batch.topic_partition: BatchOutcome(header.base_sequence, -1)}
        if header.base_sequence != len(self.log):
            return {batch.topic_partition: OutOfOrderSequence("a gap")}
        self.log.append(header.base_sequence)
        return {batch.topic_partition: BatchOutcome(header.base_sequence, -1)}


def outgoing(count: int, *, damaged: bool = False) -> list[OutgoingBatch]:
    found = []
    for number in range(count):
        data = build_batch([(1, None, b"v%d" % number)], base_offset=number)
        if damaged:
            data[-1] ^= 1
        [ready] = ready_batches(memoryview(data), position=0, rules=TargetRules(1 << 20))
        found.append(OutgoingBatch(SOURCE, TARGET, ready))
    return found


def sent(monkeypatch: pytest.MonkeyPatch, refuse: Answer, batches: list[OutgoingBatch]) -> Leader:
    """The leader after a queue has sent these batches. Raises what the queue raises."""
    leader = Leader(refuse)
    monkeypatch.setattr(produce_queue, "produce", leader.produce)

    async def refresh(_: object) -> None:
        return None

    cluster = SimpleNamespace(partition=lambda _: SimpleNamespace(leader=1))
    client: Any = SimpleNamespace(cluster=cluster, invalidate=lambda: None, refresh=refresh)

    async def send() -> None:
        queue = ProduceQueue(client, transactional_id=None, timeout_ms=5_000, on_failure=lambda *_: None)
        queue.begin(ProducerIdAndEpoch(7, 0), is_implicit=False)
        try:
            queue.add(batches)
            done = await queue.drain()
            assert [batch.base_offset for batch in done] == list(range(len(batches)))
        finally:
            await queue.close()

    asyncio.run(send())
    return leader


def test_five_are_under_way_once_the_first_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = sent(monkeypatch, lambda *_: None, outgoing(20))
    assert leader.log == list(range(20))
    assert leader.most_under_way == MIRROR_PRODUCES_IN_FLIGHT_MAX
    assert sent(monkeypatch, lambda *_: None, outgoing(1)).most_under_way == 1


def test_a_leader_that_moves_gets_all_again_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = sent(
        monkeypatch,
        lambda number, _: NotLeaderOrFollower("moved") if number in (3, 9) else None,
        outgoing(12),
    )
    assert leader.log == list(range(12))


def test_the_first_batch_is_never_overtaken(monkeypatch: pytest.MonkeyPatch) -> None:
    # A broker that does not know the producer would take the second one as its first.
    leader = sent(
        monkeypatch, lambda number, _: NotLeaderOrFollower("moved") if number == 1 else None, outgoing(5)
    )
    assert leader.log == list(range(5))
    assert leader.requests == 6


def test_a_gap_without_a_reason_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OutOfOrderSequence):
        sent(monkeypatch, lambda *_: OutOfOrderSequence("a gap"), outgoing(1))


def test_what_the_target_refuses_names_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        BatchRefused, match="partition t-0: the target refuses the batch at offset 1"
    ) as found:
        sent(
            monkeypatch,
            lambda _, sequence: RecordTooLarge("too large") if sequence == 1 else None,
            outgoing(3),
        )
    assert (found.value.partition, found.value.kind) == (SOURCE, "RecordTooLarge")


def test_damage_of_the_source_is_no_reason_to_try_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BatchRefused) as found:
        sent(monkeypatch, lambda *_: CorruptRecord("checksum"), outgoing(1, damaged=True))
    assert found.value.kind == "damaged"
    # Damage on the way to the target is.
    leader = sent(
        monkeypatch, lambda number, _: CorruptRecord("checksum") if number == 2 else None, outgoing(4)
    )
    assert leader.log == list(range(4))
