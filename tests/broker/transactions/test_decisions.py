"""Every row of the tables of InitProducerId, AddPartitionsToTxn and EndTxn, as pure decisions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from odradek.broker.transactions import decisions
from odradek.broker.transactions.decisions import ProducerIdentity, ProducerIdNeeded
from odradek.broker.transactions.metadata import TV0, TV2, TransactionMetadata, TransactionState
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition
from odradek.foundation.transaction_errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTxnState,
    ProducerFenced,
    TransactionAbortable,
)

S = TransactionState
NOW: Final = 5_000
A: Final = TopicPartition("a", 0)
B: Final = TopicPartition("b", 1)
ME: Final = ProducerIdentity(7, 3)


def stored(state: TransactionState, **changes: Any) -> TransactionMetadata:
    has_partitions = state in (S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT)
    values: dict[str, Any] = {
        "producer_id": 7,
        "previous_producer_id": 7,
        "producer_epoch": 3,
        "last_producer_epoch": 2,
        "timeout_ms": 1000,
        "state": state,
        "partitions": frozenset({A}) if has_partitions else frozenset(),
        "start_ms": 4000 if state is not S.EMPTY else -1,
        "updated_ms": 4500,
        "client_version": TV2,
    }
    return TransactionMetadata(**{**values, **changes})


def initialize(
    found: TransactionMetadata, given: ProducerIdentity | None = None, **changes: Any
) -> TransactionMetadata:
    values: dict[str, Any] = {
        "is_pending": False,
        "timeout_ms": 2000,
        "now_ms": NOW,
        "version_level": TV2,
        **changes,
    }
    return decisions.initialize(found, given=given, **values)


# --- InitProducerId ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_initialization_without_an_id_raises_the_epoch_and_fences_retries(state: S) -> None:
    next_value = initialize(stored(state))
    assert (next_value.state, next_value.producer_id, next_value.producer_epoch) == (S.EMPTY, 7, 4)
    assert (next_value.last_producer_epoch, next_value.timeout_ms, next_value.start_ms) == (-1, 2000, -1)


def test_initialization_with_the_current_epoch_raises_and_remembers_it() -> None:
    next_value = initialize(stored(S.COMPLETE_ABORT), ME)
    assert (next_value.producer_epoch, next_value.last_producer_epoch) == (4, 3)


def test_initialization_with_the_last_epoch_is_a_retry_without_a_bump() -> None:
    found = stored(S.EMPTY, timeout_ms=2000)
    assert initialize(found, ProducerIdentity(7, 2)) is found


def test_a_retry_with_another_timeout_is_stored() -> None:
    next_value = initialize(stored(S.EMPTY), ProducerIdentity(7, 2))
    assert (next_value.producer_epoch, next_value.last_producer_epoch, next_value.timeout_ms) == (3, 2, 2000)


@pytest.mark.parametrize("given", [ProducerIdentity(7, 1), ProducerIdentity(7, 9), ProducerIdentity(8, 3)])
def test_initialization_with_another_epoch_or_id_is_fenced(given: ProducerIdentity) -> None:
    with pytest.raises(ProducerFenced):
        initialize(stored(S.EMPTY), given)


def test_a_new_id_takes_any_given_epoch() -> None:
    next_value = initialize(stored(S.EMPTY, producer_epoch=-1), ProducerIdentity(99, 5))
    assert (next_value.producer_epoch, next_value.last_producer_epoch) == (0, -1)


@pytest.mark.parametrize(
    ("state", "is_pending"),
    [(S.PREPARE_COMMIT, False), (S.PREPARE_ABORT, False), (S.EMPTY, True), (S.ONGOING, True)],
)
def test_initialization_waits_for_a_change_under_way(state: S, is_pending: bool) -> None:
    with pytest.raises(ConcurrentTransactions):
        initialize(stored(state), is_pending=is_pending)


@pytest.mark.parametrize(("level", "last_epoch"), [(TV0, -1), (TV2, -1)])
def test_initialization_of_an_open_transaction_aborts_it_one_epoch_higher(
    level: int, last_epoch: int
) -> None:
    found = stored(S.ONGOING, client_version=level)
    decision = initialize(found, version_level=level)
    assert (decision.state, decision.producer_epoch) == (S.PREPARE_ABORT, 4)
    assert (decision.partitions, decision.start_ms) == (frozenset({A}), 4000)
    assert (decision.last_producer_epoch, decision.client_version) == (last_epoch, level)


def test_a_zombie_does_not_end_the_open_transaction_of_another_instance() -> None:
    with pytest.raises(ProducerFenced):
        initialize(stored(S.ONGOING), ProducerIdentity(7, 2))


def test_an_exhausted_epoch_brings_a_new_producer_id() -> None:
    found = stored(S.COMPLETE_COMMIT, producer_epoch=32766)
    with pytest.raises(ProducerIdNeeded):
        initialize(found)
    next_value = initialize(found, new_producer_id=8)
    assert (next_value.producer_id, next_value.producer_epoch, next_value.previous_producer_id) == (8, 0, 7)
    assert next_value.last_producer_epoch == -1
    given = ProducerIdentity(7, 32766)
    rotated = initialize(found, given, new_producer_id=8)
    assert rotated.last_producer_epoch == 32766
    # The answer was lost: the same request again changes nothing.
    assert initialize(replace(rotated, timeout_ms=2000), given).producer_id == 8


# --- AddPartitionsToTxn -----------------------------------------------------------------------------------------


def add(
    found: TransactionMetadata, producer: ProducerIdentity = ME, *, is_pending: bool = False
) -> TransactionMetadata:
    return decisions.add_partitions(
        found, is_pending=is_pending, producer=producer, partitions=(A, B), now_ms=NOW, client_version=TV2
    )


@pytest.mark.parametrize(
    ("state", "start_ms"),
    [(S.EMPTY, NOW), (S.COMPLETE_COMMIT, NOW), (S.COMPLETE_ABORT, NOW), (S.ONGOING, 4000)],
)
def test_partitions_begin_or_extend_a_transaction(state: S, start_ms: int) -> None:
    next_value = add(stored(state))
    assert (next_value.state, next_value.partitions, next_value.start_ms) == (
        S.ONGOING,
        frozenset({A, B}),
        start_ms,
    )
    assert next_value.producer_epoch == 3


def test_partitions_that_are_there_are_not_written_again() -> None:
    found = stored(S.ONGOING, partitions=frozenset({A, B}))
    assert add(found) is found


@pytest.mark.parametrize(
    ("state", "producer", "is_pending", "error"),
    [
        # The change under way comes first: the caller may use what is only pending (KAFKA-18660).
        (S.PREPARE_COMMIT, ProducerIdentity(8, 0), True, ConcurrentTransactions),
        (S.EMPTY, ProducerIdentity(8, 3), False, InvalidProducerIdMapping),
        (S.EMPTY, ProducerIdentity(7, 2), False, ProducerFenced),
        (S.PREPARE_ABORT, ProducerIdentity(7, 4), False, ProducerFenced),
        (S.PREPARE_COMMIT, ME, False, ConcurrentTransactions),
        (S.PREPARE_ABORT, ME, False, ConcurrentTransactions),
    ],
)
def test_partitions_are_refused(
    state: S, producer: ProducerIdentity, is_pending: bool, error: type[OdradekError]
) -> None:
    with pytest.raises(error):
        add(stored(state), producer, is_pending=is_pending)


def test_a_leader_learns_whether_its_partition_is_in_the_transaction() -> None:
    found = stored(S.ONGOING)
    decisions.check_partition(found, producer=ME, partition=A)
    for producer, partition, error in (
        (ME, B, TransactionAbortable),
        (ProducerIdentity(7, 2), A, ProducerFenced),
        (ProducerIdentity(6, 3), A, InvalidProducerIdMapping),
    ):
        with pytest.raises(error):
            decisions.check_partition(found, producer=producer, partition=partition)
    with pytest.raises(ConcurrentTransactions):
        decisions.check_partition(stored(S.PREPARE_COMMIT), producer=ME, partition=A)


# --- EndTxn of TV1 ----------------------------------------------------------------------------------------------

PREPARED: Final = "prepared"
SAME: Final = "same"


@pytest.mark.parametrize(
    ("state", "is_commit", "outcome"),
    [
        (S.ONGOING, True, PREPARED),
        (S.ONGOING, False, PREPARED),
        (S.COMPLETE_COMMIT, True, SAME),
        (S.COMPLETE_COMMIT, False, InvalidTxnState),
        (S.COMPLETE_ABORT, False, SAME),
        (S.COMPLETE_ABORT, True, InvalidTxnState),
        (S.PREPARE_COMMIT, True, ConcurrentTransactions),
        (S.PREPARE_COMMIT, False, InvalidTxnState),
        (S.PREPARE_ABORT, False, ConcurrentTransactions),
        (S.PREPARE_ABORT, True, InvalidTxnState),
        (S.EMPTY, True, InvalidTxnState),
        (S.EMPTY, False, InvalidTxnState),
    ],
)
def test_an_end_of_the_first_generation(state: S, is_commit: bool, outcome: Any) -> None:
    found = stored(state, client_version=TV0)

    def end() -> TransactionMetadata:
        return decisions.end_without_epoch(
            found, is_pending=False, producer=ME, is_commit=is_commit, now_ms=NOW
        )

    if outcome is SAME:
        assert end() is found
    elif outcome is PREPARED:
        next_value = end()
        assert next_value.state is (S.PREPARE_COMMIT if is_commit else S.PREPARE_ABORT)
        assert (next_value.producer_epoch, next_value.last_producer_epoch) == (3, 2)
        completed = next_value.complete(now_ms=NOW)
        assert completed.state is (S.COMPLETE_COMMIT if is_commit else S.COMPLETE_ABORT)
        assert (completed.producer_epoch, completed.partitions) == (3, frozenset())
    else:
        with pytest.raises(outcome):
            end()


@pytest.mark.parametrize(
    ("producer", "is_pending", "error"),
    [
        (ProducerIdentity(8, 3), False, InvalidProducerIdMapping),
        (ProducerIdentity(7, 2), False, ProducerFenced),
        (ProducerIdentity(7, 4), False, ProducerFenced),
        (ME, True, ConcurrentTransactions),
    ],
)
def test_an_end_of_the_first_generation_is_refused(
    producer: ProducerIdentity, is_pending: bool, error: type[OdradekError]
) -> None:
    with pytest.raises(error):
        decisions.end_without_epoch(
            stored(S.ONGOING), is_pending=is_pending, producer=producer, is_commit=True, now_ms=NOW
        )


# --- EndTxn of TV2 ----------------------------------------------------------------------------------------------

RETRY: Final = ProducerIdentity(7, 2)


def end(
    found: TransactionMetadata,
    producer: ProducerIdentity,
    *,
    is_commit: bool,
    is_pending: bool = False,
    new_producer_id: int | None = None,
) -> TransactionMetadata:
    return decisions.end_with_epoch(
        found,
        is_pending=is_pending,
        producer=producer,
        is_commit=is_commit,
        now_ms=NOW,
        new_producer_id=new_producer_id,
    )


@pytest.mark.parametrize(
    ("state", "abort_retry", "abort_current", "commit_retry", "commit_current"),
    [
        (S.EMPTY, ProducerFenced, PREPARED, ProducerFenced, InvalidTxnState),
        (S.ONGOING, ProducerFenced, PREPARED, ProducerFenced, PREPARED),
        # Kafka 4.1 answers the retried commit of an abort with INVALID_TXN_STATE, which ends a client (KAFKA-20785).
        (S.COMPLETE_ABORT, SAME, PREPARED, ProducerFenced, InvalidTxnState),
        (S.COMPLETE_COMMIT, InvalidTxnState, PREPARED, SAME, InvalidTxnState),
        (S.PREPARE_ABORT, ConcurrentTransactions, ProducerFenced, InvalidTxnState, ProducerFenced),
        (S.PREPARE_COMMIT, InvalidTxnState, ProducerFenced, ConcurrentTransactions, ProducerFenced),
    ],
)
def test_an_end_of_the_second_generation(
    state: S, abort_retry: Any, abort_current: Any, commit_retry: Any, commit_current: Any
) -> None:
    found = stored(state)
    for producer, is_commit, outcome in (
        (RETRY, False, abort_retry),
        (ME, False, abort_current),
        (RETRY, True, commit_retry),
        (ME, True, commit_current),
    ):
        if outcome is SAME:
            assert end(found, producer, is_commit=is_commit) is found
        elif outcome is PREPARED:
            next_value = end(found, producer, is_commit=is_commit)
            assert next_value.state is (S.PREPARE_COMMIT if is_commit else S.PREPARE_ABORT)
            assert (next_value.producer_epoch, next_value.last_producer_epoch) == (4, 3)
            assert next_value.client_version == TV2
        else:
            with pytest.raises(outcome):
                end(found, producer, is_commit=is_commit)


def test_an_abort_without_partitions_begins_when_it_ends() -> None:
    next_value = end(stored(S.COMPLETE_COMMIT), ME, is_commit=False)
    assert (next_value.partitions, next_value.start_ms) == (frozenset(), NOW)


def test_a_change_under_way_comes_before_the_epoch() -> None:
    # A commit and an empty abort after it: the second must not fence itself (KAFKA-18464).
    with pytest.raises(ConcurrentTransactions):
        end(stored(S.PREPARE_COMMIT), ME, is_commit=False, is_pending=True)


def test_the_end_of_an_unknown_producer_is_refused() -> None:
    with pytest.raises(InvalidProducerIdMapping):
        end(stored(S.ONGOING), ProducerIdentity(9, 3), is_commit=True)


@pytest.mark.parametrize("is_commit", [True, False])
def test_the_last_epoch_ends_with_a_new_producer_id(is_commit: bool) -> None:
    found = stored(S.ONGOING, producer_epoch=32766)
    last = ProducerIdentity(7, 32766)
    with pytest.raises(ProducerIdNeeded):
        end(found, last, is_commit=is_commit)
    prepared = end(found, last, is_commit=is_commit, new_producer_id=8)
    assert (prepared.producer_id, prepared.producer_epoch, prepared.next_producer_id) == (7, 32767, 8)
    completed = prepared.complete(now_ms=NOW)
    assert (completed.producer_id, completed.producer_epoch) == (8, 0)
    assert (completed.previous_producer_id, completed.next_producer_id) == (7, -1)
    assert completed.last_producer_epoch == 32766
    # The answer was lost: the same end again brings the new id.
    assert end(completed, last, is_commit=is_commit) is completed
    with pytest.raises(ConcurrentTransactions):
        end(prepared, last, is_commit=is_commit)
    # Once the next transaction has begun, it is a zombie's.
    begun = completed.with_partitions((A,), now_ms=NOW, client_version=TV2)
    with pytest.raises(InvalidProducerIdMapping):
        end(begun, last, is_commit=is_commit)


def test_an_older_epoch_after_an_end_of_the_first_generation_is_a_zombie() -> None:
    found = stored(S.COMPLETE_COMMIT, client_version=TV0)
    with pytest.raises(ProducerFenced):
        end(found, RETRY, is_commit=True)


# --- aborts by the server ---------------------------------------------------------------------------------------


def test_a_timeout_under_the_second_generation_lets_the_client_recover() -> None:
    aborted = decisions.abort_by_server(stored(S.ONGOING), now_ms=NOW, version_level=TV2)
    assert (aborted.producer_epoch, aborted.last_producer_epoch) == (4, -1)
    completed = aborted.complete(now_ms=NOW)
    assert end(completed, ME, is_commit=False) is completed
    with pytest.raises(ProducerFenced):
        end(completed, ME, is_commit=True)


def test_a_timeout_at_the_last_epoch_brings_a_new_producer_id() -> None:
    # Kafka 4.1 stays at the highest epoch, and the next end overflows it (KAFKA-20090).
    found = stored(S.ONGOING, producer_epoch=32766)
    with pytest.raises(ProducerIdNeeded):
        decisions.abort_by_server(found, now_ms=NOW, version_level=TV2)
    completed = decisions.abort_by_server(found, now_ms=NOW, version_level=TV2, new_producer_id=8).complete(
        now_ms=NOW
    )
    assert (completed.producer_id, completed.producer_epoch) == (8, 0)
    assert end(completed, ProducerIdentity(7, 32766), is_commit=False) is completed


def test_a_timeout_of_the_first_generation_fences_and_leaves_the_id_usable() -> None:
    found = stored(S.ONGOING, producer_epoch=32766, client_version=TV0)
    completed = decisions.abort_by_server(found, now_ms=NOW, version_level=TV0).complete(now_ms=NOW)
    assert (completed.producer_id, completed.producer_epoch) == (7, 32767)
    assert initialize(completed, new_producer_id=8, version_level=TV0).producer_id == 8


def test_the_highest_epoch_of_another_brokers_log_does_not_overflow() -> None:
    found = stored(S.ONGOING, producer_epoch=32767)
    aborted = decisions.abort_by_server(found, now_ms=NOW, version_level=TV2, new_producer_id=8)
    assert aborted.producer_epoch == 32767
    assert aborted.complete(now_ms=NOW).producer_id == 8
