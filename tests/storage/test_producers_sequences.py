"""Sequence numbers and epochs of idempotent producers: duplicates, gaps, wrap-around, new and old epochs."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.foundation.ids import TopicPartition
from odradek.foundation.transaction_errors import InvalidProducerEpoch, OutOfOrderSequence
from odradek.storage.producer_rules import ProducerRules
from odradek.storage.producers import ProducerStates
from odradek.storage.sequences import AppendedBatch
from odradek.wire.records.batch import BatchHeader
from tests.support.examples import examples

SEQUENCE_MAX = 2**31 - 1


def header(
    *, sequence: int, count: int = 1, producer_id: int = 7, epoch: int = 0, transactional: bool = False
) -> BatchHeader:
    return BatchHeader(
        base_offset=0,
        batch_length=100,
        leader_epoch=0,
        magic=2,
        crc=0,
        attributes=0x10 if transactional else 0,
        last_offset_delta=count - 1,
        base_timestamp_ms=1000,
        max_timestamp_ms=1000,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        record_count=count,
    )


class Writer:
    """A log reduced to its end: checks, then notes."""

    def __init__(self, **settings: Any) -> None:
        self.states = ProducerStates(TopicPartition("topic", 0), **settings)
        self.states.rules.must_verify = False
        self.end = 100

    def write(
        self, batch: BatchHeader, *, now_ms: int = 2000, is_client: bool = True
    ) -> AppendedBatch | None:
        """None when the batch was written, the old one when it is a duplicate."""
        known = self.states.check(batch, is_client=is_client)
        if known is None:
            timestamp_ms = batch.max_timestamp_ms
            self.states.note(batch, first_offset=self.end, timestamp_ms=timestamp_ms, now_ms=now_ms)
            self.end += batch.record_count
        return known


def test_batches_in_sequence_are_written() -> None:
    writer = Writer()
    assert writer.write(header(sequence=0, count=3)) is None
    assert writer.write(header(sequence=3, count=2)) is None
    assert writer.write(header(sequence=5)) is None
    assert writer.end == 106


def test_a_duplicate_of_the_last_five_is_answered_with_its_old_offset() -> None:
    writer = Writer()
    for sequence in range(0, 14, 2):
        assert writer.write(header(sequence=sequence, count=2)) is None
    for sequence in range(4, 14, 2):
        known = writer.write(header(sequence=sequence, count=2))
        assert known is not None
        assert (known.first_offset, known.last_offset) == (100 + sequence, 101 + sequence)
        assert (known.first_sequence, known.last_sequence) == (sequence, sequence + 1)
        assert known.timestamp_ms == 1000
    assert writer.end == 114
    for sequence in (0, 2):
        with pytest.raises(OutOfOrderSequence):
            writer.write(header(sequence=sequence, count=2))


def test_an_old_sequence_with_another_count_is_no_duplicate() -> None:
    writer = Writer()
    writer.write(header(sequence=0, count=3))
    writer.write(header(sequence=3, count=3))
    for batch in (header(sequence=0, count=2), header(sequence=1, count=2), header(sequence=3, count=4)):
        with pytest.raises(OutOfOrderSequence):
            writer.write(batch)


def test_a_gap_is_refused_and_leaves_the_state_alone() -> None:
    writer = Writer()
    writer.write(header(sequence=0, count=3))
    with pytest.raises(OutOfOrderSequence, match="producer 7"):
        writer.write(header(sequence=4))
    assert writer.write(header(sequence=3)) is None


def test_an_unknown_producer_may_start_anywhere() -> None:
    writer = Writer()
    assert writer.write(header(sequence=4711)) is None
    assert writer.write(header(sequence=4712)) is None


def test_sequences_wrap_to_zero() -> None:
    writer = Writer()
    assert writer.write(header(sequence=SEQUENCE_MAX - 1, count=4)) is None
    known = writer.write(header(sequence=SEQUENCE_MAX - 1, count=4))
    assert known is not None
    assert (known.first_sequence, known.last_sequence) == (SEQUENCE_MAX - 1, 1)
    assert writer.write(header(sequence=2)) is None
    other = Writer()
    assert other.write(header(sequence=SEQUENCE_MAX)) is None
    assert other.write(header(sequence=0)) is None


def test_a_new_epoch_starts_at_zero_and_forgets_the_old_batches() -> None:
    writer = Writer()
    writer.write(header(sequence=0, epoch=0))
    with pytest.raises(OutOfOrderSequence, match="new epoch"):
        writer.write(header(sequence=1, epoch=1))
    assert writer.write(header(sequence=0, epoch=1)) is None
    assert writer.write(header(sequence=0, epoch=1)) is not None
    assert writer.write(header(sequence=1, epoch=1)) is None


def test_an_old_epoch_is_fenced_even_for_a_duplicate() -> None:
    writer = Writer()
    writer.write(header(sequence=0, epoch=3))
    for sequence in (0, 1):
        with pytest.raises(InvalidProducerEpoch, match="epoch 2"):
            writer.write(header(sequence=sequence, epoch=2))


def test_the_brokers_own_writes_are_checked_for_epoch_alone() -> None:
    writer = Writer()
    own = header(sequence=-1, epoch=1, transactional=True)
    assert writer.write(own, is_client=False) is None
    assert writer.write(own, is_client=False) is None
    assert writer.states.entries()[0].last_sequence == -1
    with pytest.raises(InvalidProducerEpoch):
        writer.write(header(sequence=-1, epoch=0), is_client=False)


def test_producers_expire_after_silence() -> None:
    writer = Writer(rules=ProducerRules(expiration_ms=1000))
    writer.write(header(sequence=0, producer_id=1), now_ms=5000)
    writer.write(header(sequence=0, producer_id=2), now_ms=5500)
    writer.write(header(sequence=0, producer_id=3, transactional=True), now_ms=5000)
    assert writer.states.expire(now_ms=5999) == 0
    assert writer.states.expire(now_ms=6000) == 1
    assert {entry.producer_id for entry in writer.states.entries()} == {2, 3}
    assert writer.states.expire(now_ms=10**9) == 1
    assert {entry.producer_id for entry in writer.states.entries()} == {3}


def test_an_old_timestamp_does_not_expire_a_busy_producer() -> None:
    writer = Writer(rules=ProducerRules(expiration_ms=1000))
    writer.write(header(sequence=0), now_ms=10**12)
    assert writer.states.expire(now_ms=10**12 + 999) == 0


def test_producers_are_bounded_and_the_oldest_are_evicted() -> None:
    writer = Writer(producers_max=20)
    writer.write(header(sequence=0, producer_id=1000, transactional=True), now_ms=2000)
    for producer_id in range(100):
        writer.write(header(sequence=5, producer_id=producer_id), now_ms=3000 + producer_id)
        assert len(writer.states) <= 20
    known = {entry.producer_id for entry in writer.states.entries()}
    assert {1000, *range(82, 100)} <= known


class Model:
    """The rules, said slowly: every batch that was ever written, and the last epoch."""

    def __init__(self) -> None:
        self.written: dict[int, list[tuple[int, int, int, int]]] = {}  # epoch, first, last, offset

    def verdict(self, batch: BatchHeader) -> str | int:
        history = self.written.get(batch.producer_id, [])
        last = (batch.base_sequence + batch.record_count - 1) % 2**31
        if not history:
            return "written"
        epoch = history[-1][0]
        if batch.producer_epoch < epoch:
            return "fenced"
        if batch.producer_epoch > epoch:
            return "written" if batch.base_sequence == 0 else "gap"
        recent = [entry for entry in history if entry[0] == epoch][-5:]
        if batch.base_sequence == (recent[-1][2] + 1) % 2**31:
            return "written"
        for _, known_first, known_last, offset in recent:
            if (known_first, known_last) == (batch.base_sequence, last):
                return offset
        return "gap"

    def note(self, batch: BatchHeader, offset: int) -> None:
        last = (batch.base_sequence + batch.record_count - 1) % 2**31
        self.written.setdefault(batch.producer_id, []).append(
            (batch.producer_epoch, batch.base_sequence, last, offset)
        )


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 2**32))
def test_any_history_is_judged_as_the_model_does(seed: int) -> None:
    chance = random.Random(seed)
    writer, model = Writer(), Model()
    next_sequence: dict[tuple[int, int], int] = {}
    sent: list[BatchHeader] = []
    for _ in range(120):
        if sent and chance.random() < 0.3:
            batch = chance.choice(sent[-8:])
        else:
            producer_id, epoch = chance.randrange(3), chance.choice([0, 0, 0, 0, 1, 2])
            start = next_sequence.get((producer_id, epoch), chance.choice([0, SEQUENCE_MAX - 2]))
            sequence = (start + chance.choice([0, 0, 0, 0, 1, -1])) % 2**31
            batch = header(
                sequence=sequence, count=chance.randint(1, 3), producer_id=producer_id, epoch=epoch
            )
        sent.append(batch)
        due, offset = model.verdict(batch), writer.end
        try:
            known = writer.write(batch)
            got: str | int = "written" if known is None else known.first_offset
        except OutOfOrderSequence:
            got = "gap"
        except InvalidProducerEpoch:
            got = "fenced"
        assert got == due, f"seed {seed}: {batch}"
        if due == "written":
            model.note(batch, offset)
            sequence = (batch.base_sequence + batch.record_count) % 2**31
            next_sequence[batch.producer_id, batch.producer_epoch] = sequence
