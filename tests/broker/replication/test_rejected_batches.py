"""A batch that was refused comes again before what follows it is taken; then all of it is forgotten."""

from __future__ import annotations

import pytest

from odradek.broker.replication.rejected_batches import RejectedBatches
from odradek.foundation.errors import KafkaStorageError, NotEnoughReplicas, NotLeaderOrFollower
from odradek.foundation.ids import TopicPartition
from odradek.foundation.limits import REFUSED_BATCHES_SECONDS_MAX, REFUSED_PRODUCERS_MAX
from odradek.storage.producers import ProducerStates
from odradek.wire.records.batch import SEQUENCE_MAX, read_header
from tests.support.whole_broker import batch

FAILURE = NotLeaderOrFollower("It does not lead.")


def records(sequence: int, *, producer: int = 7, epoch: int = 0) -> bytes:
    return batch([b"v"], producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


class World:
    def __init__(self) -> None:
        self.now = 100.0
        self.refused = RejectedBatches(lambda: self.now)
        self.producers = ProducerStates(TopicPartition("t", 0))

    def has(self, sequence: int) -> None:
        """The log has the producer's batch."""
        self.producers.note(read_header(records(sequence)), first_offset=sequence, timestamp_ms=1, now_ms=1)

    def is_skipping(self, sequence: int, **who: int) -> bool:
        return self.refused.find_skipped(records(sequence, **who), self.producers) is not None


@pytest.mark.parametrize("kind", [NotLeaderOrFollower, NotEnoughReplicas, KafkaStorageError])
def test_later_batches_are_refused_until_the_first_is_retried(
    kind: type[Exception],
) -> None:
    refused, producers = RejectedBatches(lambda: 0.0), ProducerStates(TopicPartition("t", 0))
    refused.note(records(0), kind("Not now."))
    failure = refused.find_skipped(records(1), producers)
    assert isinstance(failure, kind)
    assert "Not now. So were batches of producer 7" in str(failure)
    assert refused.find_skipped(records(0), producers) is None
    refused.note_append(records(0))
    assert not refused
    assert refused.find_skipped(records(1), producers) is None


def test_only_a_batch_that_is_wanted_and_was_refused_holds_others_back() -> None:
    world = World()
    world.has(4)
    world.refused.note(records(5), FAILURE)
    world.refused.note(records(6), FAILURE)
    assert not world.is_skipping(5)
    assert world.is_skipping(6), "though it was refused itself"
    assert world.is_skipping(9)
    assert not world.is_skipping(4), "a duplicate"
    assert not world.is_skipping(9, producer=8)
    assert not world.is_skipping(9, epoch=1)
    world.has(5)
    assert world.is_skipping(7)
    world.has(6)
    assert not world.is_skipping(8), "a gap that was not refused is reported as it is"


def test_sequences_wrap_around() -> None:
    world = World()
    world.refused.note(records(SEQUENCE_MAX), FAILURE)
    assert world.is_skipping(0)
    assert not world.is_skipping(SEQUENCE_MAX - 1)


def test_it_is_forgotten_in_time_and_bounded() -> None:
    world = World()
    world.refused.note(records(0), FAILURE)
    world.now += REFUSED_BATCHES_SECONDS_MAX
    assert not world.is_skipping(1)
    assert not world.refused
    for producer in range(REFUSED_PRODUCERS_MAX + 1):
        world.refused.note(records(0, producer=producer), FAILURE)
    assert len(world.refused) == REFUSED_PRODUCERS_MAX
    assert not world.is_skipping(1, producer=0)
    assert world.is_skipping(1, producer=1)


def test_what_is_no_batch_of_an_idempotent_producer_is_passed_over() -> None:
    world = World()
    for data in (b"", b"short", batch([b"v"])):
        world.refused.note(data, FAILURE)
        assert not world.refused
        assert world.refused.find_skipped(data, world.producers) is None
