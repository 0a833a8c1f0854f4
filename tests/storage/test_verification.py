"""A transaction begins in a partition only with the token of its verification, which markers and data take away."""

from __future__ import annotations

import pytest

from odradek.foundation import transaction_errors
from odradek.foundation.ids import TopicPartition
from odradek.storage.producer_rules import ProducerRules
from odradek.storage.producers import ProducerStates
from odradek.storage.verification import VerificationToken, VerificationTokens
from odradek.wire.records.batch import BatchView
from odradek.wire.records.builder import build_batch
from odradek.wire.records.control import Marker, build_marker


class Leader:
    """A partition reduced to its producers and its end."""

    def __init__(self) -> None:
        self.states = ProducerStates(TopicPartition("topic", 0))
        self.end = 0

    def verify(
        self, *, epoch: int = 0, sequence: int = 0, version: int = 2, producer_id: int = 1
    ) -> VerificationToken | None:
        return self.states.begin_verification(
            producer_id, epoch, first_sequence=sequence, adds_partition=version >= 2, now_ms=0
        )

    def write(
        self,
        token: VerificationToken | None = None,
        *,
        epoch: int = 0,
        sequence: int = 0,
        is_client: bool = True,
        producer_id: int = 1,
    ) -> None:
        view = BatchView(
            build_batch(
                [(1000, b"k", b"v")],
                base_offset=self.end,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence if is_client else -1,
                is_transactional=True,
            )
        )
        assert self.states.check(view.header, is_client=is_client, token=token) is None
        self.states.replay(view, now_ms=0)
        self.end += 1

    def mark(
        self, *, epoch: int = 0, coordinator_epoch: int = 0, version: int = 0, commit: bool = True
    ) -> bool:
        marker = Marker(1, epoch, commit, coordinator_epoch, 1000)
        if not self.states.check_marker(marker, transaction_version=version):
            return False
        view = BatchView(
            build_marker(
                producer_id=1,
                producer_epoch=epoch,
                is_commit=commit,
                coordinator_epoch=coordinator_epoch,
                timestamp_ms=1000,
                base_offset=self.end,
            )
        )
        self.states.replay(view, now_ms=0)
        self.end += 1
        return True

    @property
    def is_open(self) -> bool:
        return len(self.states.transactions) > 0


def test_a_transaction_does_not_begin_without_a_token() -> None:
    leader = Leader()
    with pytest.raises(transaction_errors.InvalidTxnState):
        leader.write()
    with pytest.raises(transaction_errors.InvalidTxnState):
        leader.write(is_client=False)
    leader.write(leader.verify())
    assert leader.verify(sequence=1) is None, "it is open: nobody has to ask"
    leader.write(sequence=1)


def test_a_token_of_another_verification_is_none() -> None:
    leader = Leader()
    leader.verify()
    other = VerificationToken(1, 0, first_sequence=0, adds_partition=True, created_ms=0)
    with pytest.raises(transaction_errors.InvalidTxnState):
        leader.write(other)


def test_an_abort_between_answer_and_append_voids_the_token() -> None:
    """The append would open a transaction that never ends: a hanging transaction."""
    for version, epoch in ((1, 0), (1, 1), (2, 1)):
        leader = Leader()
        token = leader.verify(version=version)
        assert leader.mark(epoch=epoch, version=version, commit=False)
        with pytest.raises(
            transaction_errors.InvalidTxnState if epoch == 0 else transaction_errors.InvalidProducerEpoch
        ):
            leader.write(token)
        assert not leader.is_open


def test_an_abort_that_finds_nothing_open_voids_the_token_too() -> None:
    leader = Leader()
    leader.write(leader.verify(version=1))
    assert leader.mark()
    token = leader.verify(sequence=1, version=1)
    assert not leader.mark(commit=False), (
        "nothing is open, and this coordinator has ended a transaction before"
    )
    with pytest.raises(transaction_errors.InvalidTxnState):
        leader.write(token, sequence=1)


def test_the_marker_before_leaves_the_token_of_the_next_transaction() -> None:
    """With version 2 the producer has continued with the marker's epoch while the marker was on its way."""
    leader = Leader()
    leader.write(leader.verify())
    token = leader.verify(epoch=1)
    assert leader.mark(epoch=1, version=2)
    leader.write(token, epoch=1)
    assert leader.is_open


def test_data_takes_the_token_away() -> None:
    leader = Leader()
    token = leader.verify()
    leader.write(token)
    assert leader.mark(epoch=1, version=2)
    with pytest.raises(transaction_errors.InvalidProducerEpoch):
        leader.write(token)
    with pytest.raises(transaction_errors.InvalidTxnState):
        leader.write(token, epoch=1)


def test_each_epoch_has_its_own_token() -> None:
    """An epoch that no coordinator has given must not keep the true one from writing."""
    leader = Leader()
    true = leader.verify(epoch=4)
    false = leader.verify(epoch=9)
    assert false is not true
    with pytest.raises(transaction_errors.InvalidTxnState):
        leader.write(false, epoch=4)
    leader.write(true, epoch=4)
    with pytest.raises(transaction_errors.InvalidTxnState):
        leader.write(false, epoch=9)
    tokens = VerificationTokens()
    for epoch in range(7):
        tokens.begin(1, epoch, first_sequence=0, adds_partition=True, now_ms=0)
    assert [epoch for epoch in range(7) if tokens.get(1, epoch)] == [2, 3, 4, 5, 6]


@pytest.mark.parametrize("version", [1, 2])
def test_a_batch_behind_a_lower_one_that_is_verified_waits_for_it(version: int) -> None:
    leader = Leader()
    token = leader.verify(sequence=0, version=version)
    assert leader.verify(sequence=1, version=version) is token
    with pytest.raises(transaction_errors.OutOfOrderSequence):
        leader.write(token, sequence=1)
    leader.write(token)
    leader.write(sequence=1)


def test_only_version_1_begins_an_unknown_producer_at_any_sequence() -> None:
    leader = Leader()
    leader.write(leader.verify(sequence=7, version=1), sequence=7)
    leader = Leader()
    token = leader.verify(sequence=7)
    with pytest.raises(transaction_errors.OutOfOrderSequence):
        leader.write(token, sequence=7)


def test_a_switched_off_verification_needs_no_token() -> None:
    leader = Leader()
    leader.states.rules = ProducerRules(must_verify=False)
    leader.write()
    assert leader.is_open


# --- markers ---------------------------------------------------------------------------------------------------------


def test_a_repeated_marker_does_not_end_the_next_transaction() -> None:
    """KAFKA-19446: the next transaction has the epoch of the marker that ended the last one."""
    leader = Leader()
    leader.write(leader.verify())
    assert leader.mark(epoch=1, version=2)
    leader.write(leader.verify(epoch=1), epoch=1)
    with pytest.raises(transaction_errors.InvalidProducerEpoch):
        leader.mark(epoch=1, version=2)
    assert leader.is_open
    assert leader.mark(epoch=2, version=2)
    assert not leader.is_open


def test_a_repeated_marker_without_a_transaction_writes_nothing() -> None:
    """KAFKA-19999: its coordinator would ask for ever."""
    leader = Leader()
    leader.write(leader.verify())
    assert leader.mark(epoch=1, coordinator_epoch=3, version=2)
    end = leader.end
    for _ in range(3):
        assert not leader.mark(epoch=1, coordinator_epoch=3, version=2)
    assert leader.end == end
    assert leader.mark(epoch=1, coordinator_epoch=4, version=2), "a new coordinator fences the one before it"
    with pytest.raises(transaction_errors.TransactionCoordinatorFenced):
        leader.mark(epoch=1, coordinator_epoch=3, version=2)


def test_a_marker_of_version_1_has_the_epoch_of_the_data() -> None:
    leader = Leader()
    for sequence in range(3):
        leader.write(leader.verify(sequence=sequence, version=1), sequence=sequence)
        assert leader.mark()
        assert not leader.is_open


def test_a_marker_without_data_fences_the_producer() -> None:
    leader = Leader()
    assert leader.mark(epoch=5)
    assert leader.states.transactions.last_stable_offset(high_watermark=1) == 1
    with pytest.raises(transaction_errors.InvalidProducerEpoch):
        leader.write(leader.verify(epoch=4), epoch=4)


# --- what is remembered ----------------------------------------------------------------------------------------------


def test_tokens_are_bounded_in_number_and_time() -> None:
    tokens = VerificationTokens(producers_max=2)
    for producer_id in (1, 2, 3):
        tokens.begin(producer_id, 0, first_sequence=0, adds_partition=True, now_ms=producer_id)
    assert list(tokens.standing) == [2, 3]
    tokens.expire(now_ms=12, expiration_ms=10)
    assert list(tokens.standing) == [3]
    tokens.clear()
    assert not tokens.standing


def test_a_truncation_forgets_all_tokens() -> None:
    leader = Leader()
    token = leader.verify()
    leader.states.reload(log_start_offset=0, log_end_offset=0, now_ms=0)
    with pytest.raises(transaction_errors.InvalidTxnState):
        leader.write(token)
