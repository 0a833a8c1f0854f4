"""Open transactions of a partition: where a read-committed reader must stop, and what ends them."""

from __future__ import annotations

import pytest

from odradek.foundation import errors, transaction_errors
from odradek.foundation.ids import TopicPartition
from odradek.storage.open_transactions import CompletedTransaction
from odradek.storage.producers import ProducerStates
from odradek.wire.records.batch import BatchView, verify_header
from odradek.wire.records.builder import build_batch
from odradek.wire.records.control import Marker, build_marker


def states(*, must_verify: bool = False) -> ProducerStates:
    known = ProducerStates(TopicPartition("topic", 0))
    known.rules.must_verify = must_verify
    return known


def data(
    offset: int, producer_id: int, sequence: int = 0, *, epoch: int = 0, transactional: bool = True
) -> BatchView:
    return BatchView(
        build_batch(
            [(1000, b"k", b"v")],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=transactional,
        )
    )


def marker(
    offset: int, producer_id: int, *, commit: bool = True, epoch: int = 0, coordinator_epoch: int = 0
) -> BatchView:
    return BatchView(
        build_marker(
            producer_id=producer_id,
            producer_epoch=epoch,
            is_commit=commit,
            coordinator_epoch=coordinator_epoch,
            timestamp_ms=1000,
            base_offset=offset,
        )
    )


def test_the_oldest_open_transaction_holds_back_readers() -> None:
    known = states()
    before: int | None = known.transactions.first_undecided_offset
    assert before is None
    assert known.transactions.last_stable_offset(high_watermark=10) == 10
    known.replay(data(10, producer_id=1), now_ms=0)
    known.replay(data(11, producer_id=2), now_ms=0)
    known.replay(data(12, producer_id=1, sequence=1), now_ms=0)
    assert known.transactions.first_undecided_offset == 10
    assert known.transactions.last_stable_offset(high_watermark=13) == 10
    assert known.transactions.last_stable_offset(high_watermark=5) == 5
    completed = known.replay(marker(13, producer_id=1, commit=False), now_ms=0)
    assert completed == CompletedTransaction(1, 10, 13, True)
    assert known.transactions.last_stable_offset_after(completed) == 11
    assert known.transactions.last_stable_offset(high_watermark=14) == 11
    assert known.replay(marker(14, producer_id=2), now_ms=0) == CompletedTransaction(2, 11, 14, False)
    assert known.transactions.last_stable_offset(high_watermark=15) == 15


def test_a_marker_above_the_high_watermark_does_not_release_readers_yet() -> None:
    known = states()
    known.replay(data(10, producer_id=1), now_ms=0)
    known.replay(marker(11, producer_id=1), now_ms=0)
    assert known.transactions.first_undecided_offset is None
    assert known.transactions.first_unstable_offset(high_watermark=11) == 10
    assert known.transactions.last_stable_offset(high_watermark=11) == 10
    assert known.transactions.first_unstable_offset(high_watermark=12) is None
    assert known.transactions.last_stable_offset(high_watermark=12) == 12


def test_a_marker_without_data_completes_nothing() -> None:
    known = states()
    assert known.replay(marker(5, producer_id=1), now_ms=0) is None
    assert known.transactions.last_stable_offset(high_watermark=6) == 6
    (entry,) = known.entries()
    assert (entry.producer_id, entry.last_sequence, entry.last_offset, entry.coordinator_epoch) == (
        1,
        -1,
        -1,
        0,
    )


def test_a_marker_with_a_new_epoch_resets_the_sequence() -> None:
    known = states()
    known.replay(data(10, producer_id=1, sequence=40), now_ms=0)
    known.replay(marker(11, producer_id=1, epoch=1), now_ms=0)
    header = data(0, producer_id=1, sequence=0, epoch=1).header
    assert known.check(header) is None
    with pytest.raises(transaction_errors.InvalidProducerEpoch):
        known.check(data(0, producer_id=1, sequence=41, epoch=0).header)


def test_a_batch_outside_of_the_open_transaction_is_refused() -> None:
    known = states()
    known.replay(data(10, producer_id=1), now_ms=0)
    with pytest.raises(transaction_errors.InvalidTxnState):
        known.check(data(0, producer_id=1, sequence=1, transactional=False).header)
    known.replay(marker(11, producer_id=1), now_ms=0)
    assert known.check(data(0, producer_id=1, sequence=1, transactional=False).header) is None


def test_markers_of_old_epochs_and_coordinators_are_fenced() -> None:
    known = states()
    known.check_marker(Marker(1, 0, True, 0, 1000))
    known.replay(marker(5, producer_id=1, epoch=4, coordinator_epoch=9), now_ms=0)
    known.check_marker(Marker(1, 4, True, 9, 1000))
    with pytest.raises(transaction_errors.InvalidProducerEpoch):
        known.check_marker(Marker(1, 3, True, 9, 1000))
    with pytest.raises(transaction_errors.TransactionCoordinatorFenced):
        known.check_marker(Marker(1, 4, True, 8, 1000))


def test_replay_passes_over_what_has_no_producer_and_other_control_batches() -> None:
    known = states()
    known.replay(BatchView(build_batch([(0, b"k", b"v")])), now_ms=0)
    other = build_batch([(0, b"\x00\x00\x00\x02", b"")], is_control=True, producer_id=3, producer_epoch=0)
    assert known.replay(BatchView(other), now_ms=0) is None
    assert len(known) == 0
    damaged = build_batch([(0, b"\x00", b"")], is_control=True, producer_id=3, producer_epoch=0)
    verify_header(damaged)
    with pytest.raises(errors.CorruptRecord):
        known.replay(BatchView(damaged), now_ms=0)
