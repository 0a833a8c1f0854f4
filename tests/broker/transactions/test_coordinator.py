"""Stories of one transaction coordinator: begin, end, markers, timeouts, expiry, and its restart at each step."""

from __future__ import annotations

import asyncio

import pytest

from odradek.broker.transactions.decisions import ProducerIdentity
from odradek.broker.transactions.listing import TransactionFilter, filter_by
from odradek.broker.transactions.metadata import TV0, TV2, TransactionState
from odradek.foundation import errors, transaction_errors
from odradek.foundation.transaction_errors import (
    ConcurrentTransactions,
    InvalidTransactionTimeout,
    TransactionalIdNotFound,
)
from tests.support.coordinator_world import A, B, C, TransactionWorld, image, in_transaction_world, turns
from tests.support.polling import eventually
from tests.support.stories import told_by

S = TransactionState


@pytest.mark.parametrize(("version", "epoch"), [(TV0, 0), (TV2, 1)])
@told_by(in_transaction_world)
async def test_a_commit_sends_a_marker_to_each_partition(
    world: TransactionWorld, version: int, epoch: int
) -> None:
    producer = await world.initialize()
    assert producer == ProducerIdentity(7, 0)
    await world.add(producer, A, B, C, version=version)
    assert await world.end(producer, version=version) == (7, epoch)
    await turns(20)
    assert world.stored().state is S.COMPLETE_COMMIT
    marker = (7, epoch, True, 0, version)
    assert world.leaders.written == {A: [marker], B: [marker], C: [marker]}
    assert sorted(world.leaders.requests) == [(1, [A, C]), (2, [B])]
    assert world.coordinator.completed == {"commit": 1, "abort": 0}


@told_by(in_transaction_world)
async def test_an_abort_without_partitions_sends_nothing(world: TransactionWorld) -> None:
    producer = await world.initialize()
    assert await world.end(producer, is_commit=False) == (7, 1)
    await turns()
    assert (world.stored().state, world.leaders.requests) == (S.COMPLETE_ABORT, [])
    assert await world.end(ProducerIdentity(7, 1), is_commit=False) == (7, 2)


@told_by(in_transaction_world)
async def test_an_id_is_pending_until_all_markers_are_there(world: TransactionWorld) -> None:
    producer = await world.initialize()
    await world.add(producer, A)
    world.leaders.gate = asyncio.Event()
    await world.end(producer)
    for again in (world.end(producer), world.initialize(), world.add(ProducerIdentity(7, 1), B)):
        with pytest.raises(ConcurrentTransactions):
            await again
    assert world.stored().state is S.PREPARE_COMMIT
    world.leaders.gate.set()
    await turns(20)
    assert await world.end(producer) == (7, 1), "a retry, whose first answer was lost"
    await world.add(ProducerIdentity(7, 1), B)


@told_by(in_transaction_world)
async def test_requests_wait_for_a_write_and_a_failed_one_leaves_nothing(world: TransactionWorld) -> None:
    producer = await world.initialize()
    world.log.is_held = True
    adding = asyncio.ensure_future(world.add(producer, A))
    await turns()
    with pytest.raises(ConcurrentTransactions):
        await world.end(producer)
    world.log.release(errors.NotEnoughReplicas("one is left"))
    with pytest.raises(errors.CoordinatorNotAvailable):
        await adding
    assert world.stored().state is S.EMPTY
    await world.add(producer, A)
    assert world.stored().state is S.ONGOING


@told_by(in_transaction_world)
async def test_a_new_id_whose_first_write_fails_is_not_known(world: TransactionWorld) -> None:
    world.log.fail_with = errors.NotEnoughReplicas("one is left")
    with pytest.raises(errors.CoordinatorNotAvailable):
        await world.initialize()
    with pytest.raises(transaction_errors.InvalidProducerIdMapping):
        await world.end(ProducerIdentity(7, 0))
    with pytest.raises(TransactionalIdNotFound):
        world.coordinator.listing.describe("tx")
    world.log.fail_with = None
    assert (await world.initialize()).producer_epoch == 0


@told_by(in_transaction_world)
async def test_many_fences_without_a_log_use_one_epoch(world: TransactionWorld) -> None:
    # Each try of a fence used up an epoch in Kafka before 2.5 (KAFKA-9666).
    producer = await world.initialize()
    await world.add(producer, A)
    world.log.fail_with = errors.NotEnoughReplicas("one is left")
    for _ in range(200):
        with pytest.raises(errors.CoordinatorNotAvailable):
            await world.initialize()
    world.log.fail_with = None
    with pytest.raises(ConcurrentTransactions):
        await world.initialize()
    await turns(20)
    assert world.stored().producer_epoch == 1
    assert await world.initialize() == (7, 2)


@told_by(in_transaction_world)
async def test_a_new_instance_aborts_what_the_last_one_left_open(world: TransactionWorld) -> None:
    # A broker that forgets the open transaction lets the next commit swallow it (franz-go's kfake, #1398).
    old = await world.initialize()
    await world.add(old, A)
    with pytest.raises(ConcurrentTransactions):
        await world.initialize()
    await turns(20)
    assert world.leaders.written == {A: [(7, 1, False, 0, 2)]}
    new = await world.initialize()
    assert new == (7, 2)
    with pytest.raises(transaction_errors.ProducerFenced):
        await world.end(old)
    with pytest.raises(transaction_errors.ProducerFenced):
        await world.add(old, A)
    await world.add(new, B)
    await world.end(new)


@told_by(in_transaction_world)
async def test_an_id_belongs_to_one_producer_id(world: TransactionWorld) -> None:
    await world.initialize()
    for refused in (
        world.end(ProducerIdentity(99, 0)),
        world.add(ProducerIdentity(99, 0), A),
        world.end(ProducerIdentity(7, 0), name="other"),
    ):
        with pytest.raises(transaction_errors.InvalidProducerIdMapping):
            await refused
    with pytest.raises(transaction_errors.InvalidTxnState):
        await world.end(ProducerIdentity(7, 0))
    for name, timeout_ms, error in (
        ("", 1000, errors.InvalidRequest),
        ("tx", 0, InvalidTransactionTimeout),
        ("tx", -1, InvalidTransactionTimeout),
        ("tx", 900_001, InvalidTransactionTimeout),
    ):
        with pytest.raises(error):
            await world.initialize(name, timeout_ms=timeout_ms)


# --- markers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [3, 6, 7, 14, 19, 20, 56, -1, 30_000])
@told_by(in_transaction_world)
async def test_a_marker_that_cannot_be_taken_is_sent_again(world: TransactionWorld, code: int) -> None:
    producer = await world.initialize()
    await world.add(producer, A, C)
    world.leaders.answers = {A: [code] * 5}
    await world.end(producer)
    begin = asyncio.get_running_loop().time()
    await eventually(
        "the transaction is complete",
        lambda: world.stored().state,
        lambda seen: seen is S.COMPLETE_COMMIT,
        pause_seconds=0.01,
    )
    assert len(world.leaders.written[C]) == len(world.leaders.written[A]) == 1
    assert len(world.leaders.requests) == 6
    assert 0.5 < asyncio.get_running_loop().time() - begin < 2, "the pauses grow"


@told_by(in_transaction_world)
async def test_an_answer_that_is_no_answer_does_not_end_the_sending(world: TransactionWorld) -> None:
    producer = await world.initialize()
    await world.add(producer, A)
    world.leaders.failures = [errors.FrameError("cut off"), ValueError("a defect"), AttributeError("another")]
    await world.end(producer)
    await asyncio.sleep(1)
    assert world.stored().state is S.COMPLETE_COMMIT
    assert len(world.leaders.written[A]) == 1


@told_by(in_transaction_world)
async def test_a_lost_answer_or_moved_leader_repeats_the_marker_at_the_leader(
    world: TransactionWorld,
) -> None:
    producer = await world.initialize()
    await world.add(producer, A)
    world.leaders.lost_answers = 1
    await world.end(producer)
    await turns(20)
    world.images.replace(image({"a": (-1, 2), "b": (1,)}, brokers=range(3)))
    await asyncio.sleep(3)
    assert world.stored().state is S.PREPARE_COMMIT
    world.images.replace(image({"a": (2, 2), "b": (1,)}, brokers=range(3)))
    await asyncio.sleep(3)
    assert world.stored().state is S.COMPLETE_COMMIT
    assert [broker for broker, _ in world.leaders.requests] == [1, 2]


@told_by(in_transaction_world)
async def test_a_deleted_topic_needs_no_marker(world: TransactionWorld) -> None:
    producer = await world.initialize()
    await world.add(producer, A, C)
    world.leaders.answers = {C: [6]}
    world.images.replace(image({"b": (1,)}, brokers=range(3)))
    await world.end(producer, is_commit=False)
    await turns(20)
    world.images.replace(image({"a": (1,)}, brokers=range(3)))
    await asyncio.sleep(1)
    assert (world.stored().state, world.leaders.written) == (S.COMPLETE_ABORT, {})


@told_by(in_transaction_world)
async def test_a_partition_with_a_newer_epoch_needs_no_marker(world: TransactionWorld) -> None:
    producer = await world.initialize()
    await world.add(producer, A)
    world.leaders.answers = {A: [47]}
    await world.end(producer)
    await turns(20)
    assert world.stored().state is S.COMPLETE_COMMIT


@told_by(in_transaction_world)
async def test_a_partition_that_knows_a_newer_coordinator_is_not_asked_at_once(
    world: TransactionWorld,
) -> None:
    producer = await world.initialize()
    await world.add(producer, A)
    world.leaders.answers = {A: [52]}
    await world.end(producer)
    await asyncio.sleep(20)
    assert len(world.leaders.requests) == 1
    assert world.stored().state is S.PREPARE_COMMIT


@told_by(in_transaction_world)
async def test_a_complete_state_that_cannot_be_written_is_tried_again(world: TransactionWorld) -> None:
    producer = await world.initialize()
    await world.add(producer, A)
    world.leaders.gate = asyncio.Event()
    await world.end(producer)
    world.log.fail_with = errors.NotEnoughReplicas("one is left")
    world.leaders.gate.set()
    await asyncio.sleep(3)
    with pytest.raises(ConcurrentTransactions):
        await world.initialize()
    world.log.fail_with = None
    await asyncio.sleep(2)
    assert world.stored().state is S.COMPLETE_COMMIT
    assert len(world.leaders.requests) == 1


# --- restarts ---------------------------------------------------------------------------------------------------


@told_by(in_transaction_world)
async def test_the_next_coordinator_sends_the_markers_that_are_left(world: TransactionWorld) -> None:
    producer = await world.initialize()
    await world.add(producer, A, B)
    world.leaders.answers = {B: [6] * 100}
    await world.end(producer)
    await turns(20)
    assert list(world.leaders.written) == [A]
    world.leaders.answers.clear()
    await world.restart()
    await turns(20)
    assert world.stored().state is S.COMPLETE_COMMIT
    # A has it twice: the same decision, with the newer coordinator's epoch. Leaders take the second as a retry.
    assert world.leaders.written == {A: [(7, 1, True, 0, 2), (7, 1, True, 1, 2)], B: [(7, 1, True, 1, 2)]}
    assert await world.end(producer) == (7, 1)


@told_by(in_transaction_world)
async def test_a_returning_coordinator_ignores_answers_of_its_last_term(world: TransactionWorld) -> None:
    # Away and back while markers are sent: the old answers must not complete the new attempt (KAFKA-16352).
    producer = await world.initialize()
    await world.add(producer, A)
    world.leaders.gate = asyncio.Event()
    await world.end(producer)
    await turns()
    partition = world.coordinator.runtime.partition_for("tx")
    world.log.led.discard(partition)
    world.coordinator.runtime.refresh()
    with pytest.raises(errors.NotCoordinator):
        await world.end(producer)
    world.log.led.add(partition)
    world.log.epoch = 2
    world.coordinator.runtime.refresh()
    await world.coordinator.runtime.wait_until_loaded()
    world.leaders.answers = {A: [0, 6]}
    world.leaders.gate.set()
    await turns(30)
    assert world.stored().state is S.PREPARE_COMMIT, "the first answer is the old attempt's"
    await asyncio.sleep(1)
    assert world.stored().state is S.COMPLETE_COMMIT
    assert [marker[3] for marker in world.leaders.written[A]] == [0, 2]


@pytest.mark.parametrize("level", [TV0, TV2])
def test_every_state_survives_a_restart(level: int) -> None:
    async def story(world: TransactionWorld) -> None:
        producer = await world.initialize()
        await world.restart()
        assert world.stored().state is S.EMPTY
        await world.add(producer, A, B, version=level)
        before = world.stored()
        await world.restart()
        assert world.stored().partitions == before.partitions
        assert (world.stored().start_ms, world.stored().state) == (before.start_ms, S.ONGOING)
        ended = await world.end(producer, is_commit=False, version=level)
        await turns(20)
        await world.restart()
        assert world.stored().state is S.COMPLETE_ABORT
        assert world.stored().producer_epoch == ended.producer_epoch
        assert await world.initialize(given=ProducerIdentity(*ended)) == (7, ended.producer_epoch + 1)
        await world.restart()
        if level == TV2:
            # The answer was lost, and the coordinator has moved: Kafka 4.1 fences here (KAFKA-20357).
            assert await world.initialize(given=ProducerIdentity(*ended)) == (7, ended.producer_epoch + 1)

    in_transaction_world(story, level=level)


@told_by(in_transaction_world)
async def test_the_last_epochs_survive_a_restart_after_each_step(world: TransactionWorld) -> None:
    # KAFKA-20310: the next producer id was forgotten with the coordinator.
    producer = await world.initialize()
    found = world.coordinator.runtime.shard("tx").machine.ids["tx"]
    from dataclasses import replace

    found.metadata = replace(found.metadata, producer_epoch=32764)
    producer = ProducerIdentity(7, 32764)
    seen: list[tuple[int, int]] = []
    for _ in range(5):
        await world.restart() if seen else None
        await world.add(producer, A)
        await world.restart()
        world.leaders.gate = asyncio.Event()
        ended = await world.end(producer)
        await world.restart()
        with pytest.raises(ConcurrentTransactions):
            await world.end(producer)
        world.leaders.gate.set()
        await turns(30)
        await world.restart()
        assert await world.end(producer) == ended, "a retry gives the same pair"
        producer = ProducerIdentity(*ended)
        seen.append(ended)
    assert seen == [(7, 32765), (7, 32766), (8, 0), (8, 1), (8, 2)]


# --- time -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [TV0, TV2])
def test_a_transaction_past_its_timeout_is_aborted_and_fenced(level: int) -> None:
    async def story(world: TransactionWorld) -> None:
        producer = await world.initialize(timeout_ms=5000)
        await world.add(producer, A, version=level)
        await asyncio.sleep(4.5)
        assert world.stored().state is S.ONGOING
        await asyncio.sleep(2)
        assert world.stored().state is S.COMPLETE_ABORT
        assert world.leaders.written == {A: [(7, 1, False, 0, level)]}
        with pytest.raises(transaction_errors.ProducerFenced):
            await world.end(producer, version=level)
        if level == TV2:
            assert await world.end(producer, is_commit=False) == (7, 1)
        else:
            with pytest.raises(transaction_errors.ProducerFenced):
                await world.end(producer, is_commit=False, version=level)
        assert world.coordinator.sweeps.timed_out == 1

    in_transaction_world(story, level=level)


@told_by(in_transaction_world)
async def test_a_timeout_skips_an_id_with_a_change_under_way(world: TransactionWorld) -> None:
    producer = await world.initialize(timeout_ms=1000)
    await world.add(producer, A)
    world.log.is_held = True
    ending = asyncio.ensure_future(world.end(producer))
    await asyncio.sleep(5)
    world.log.release()
    assert await ending == (7, 1)
    await turns(20)
    assert world.stored().state is S.COMPLETE_COMMIT


@told_by(in_transaction_world, transactional_id_expiration_ms=7_000_000)
async def test_unused_ids_go_and_used_ones_stay(world: TransactionWorld) -> None:
    await world.initialize("old")
    busy = await world.initialize("busy", timeout_ms=900_000)
    await world.add(busy, A, name="busy")
    await asyncio.sleep(5000)
    await world.initialize("new")
    await asyncio.sleep(3700)
    names = {row.transactional_id for row in world.coordinator.listing.transactions(TransactionFilter())}
    assert names == {"new", "busy"}
    with pytest.raises(transaction_errors.InvalidProducerIdMapping):
        await world.end(ProducerIdentity(7, 0), name="old")
    await world.restart()
    assert "old" not in world.coordinator.runtime.shard("old").machine.ids
    assert (await world.initialize("old")).producer_id == 10


@told_by(in_transaction_world)
async def test_an_id_whose_removal_is_being_written_blocks_use(world: TransactionWorld) -> None:
    await world.initialize()
    await asyncio.sleep(10)
    world.settings.transactional_id_expiration_ms = 1000
    world.log.is_held = True
    await world.coordinator.sweeps.expiry_round()
    await turns()
    with pytest.raises(ConcurrentTransactions):
        await world.initialize()
    with pytest.raises(TransactionalIdNotFound):
        world.coordinator.listing.describe("tx")
    world.log.release()
    await turns()
    assert await world.initialize() == (8, 0)


# --- looking on -------------------------------------------------------------------------------------------------


@told_by(in_transaction_world)
async def test_transactions_are_listed_by_state_producer_duration_and_pattern(
    world: TransactionWorld,
) -> None:
    first = await world.initialize("one")
    await world.initialize("two")
    await world.add(first, A, name="one")
    await asyncio.sleep(2)

    def names(**wanted: object) -> list[str]:
        rows = world.coordinator.listing.transactions(filter_by(**wanted))  # type: ignore[arg-type]
        return sorted(row.transactional_id for row in rows)

    assert names() == ["one", "two"]
    assert names(states=["Ongoing"]) == ["one"]
    assert names(producer_ids=[8]) == ["two"]
    assert names(duration_ms=5000, states=["Ongoing"]) == []
    assert names(duration_ms=1000, states=["Ongoing"]) == ["one"]
    assert names(pattern="t.*") == ["two"]
    assert names(pattern="t") == []
    wanted = filter_by(states=["ongoing", "ongoing"])
    assert world.coordinator.listing.transactions(wanted) == []
    assert wanted.unknown_states == ("ongoing",)
    assert world.coordinator.listing.describe("one").partitions == {A}
    assert world.coordinator.listing.counts()["Ongoing"] == 1
