"""Races of one transaction coordinator: with its own failover, with timeouts, with the last epochs, with an upgrade."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from odradek.broker.transactions.decisions import ProducerIdentity
from odradek.broker.transactions.metadata import TV0, TV1, TV2, TransactionState
from odradek.broker.transactions.state_machine import TransactionalId
from odradek.foundation import errors, transaction_errors
from odradek.foundation.transaction_errors import ConcurrentTransactions
from tests.support.coordinator_world import A, B, TransactionWorld, in_transaction_world, turns
from tests.support.polling import eventually
from tests.support.stories import told_by

S = TransactionState
T = TypeVar("T")
RETRIED = (ConcurrentTransactions, errors.CoordinatorNotAvailable, errors.NotCoordinator)


def set_epoch(world: TransactionWorld, epoch: int) -> ProducerIdentity:
    """As if as many transactions had been before."""
    found = world.coordinator.runtime.shard("tx").machine.ids["tx"]
    found.metadata = replace(found.metadata, producer_epoch=epoch)
    return ProducerIdentity(found.metadata.producer_id, epoch)


async def served(ask: Callable[..., Awaitable[T]], *given: Any, **named: Any) -> T:
    """The answer, once it is none to ask again."""
    return await eventually(
        "it is served", lambda: ask(*given, **named), lambda _: True, not_yet=RETRIED, pause_seconds=0.02
    )


async def ended(
    world: TransactionWorld, producer: ProducerIdentity, *, is_commit: bool = True
) -> ProducerIdentity:
    """EndTxn as clients send it: until it is answered by an outcome."""
    return await served(world.end, producer, is_commit=is_commit)


# --- failover ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_in_log", [True, False])
@told_by(in_transaction_world)
async def test_a_coordinator_that_moves_during_an_end_keeps_one_outcome(
    world: TransactionWorld, is_in_log: bool
) -> None:
    """The client has no answer, so its retry decides, or learns what was decided."""
    producer = await world.initialize()
    await world.add(producer, A, B)
    if is_in_log:
        world.log.is_held = True
    else:
        world.log.fail_with = errors.NotEnoughReplicas("one is left")
    ending = asyncio.ensure_future(world.end(producer))
    await turns()
    world.log.is_held, world.log.fail_with = False, None
    await world.restart()
    with pytest.raises((errors.NotCoordinator, errors.CoordinatorNotAvailable)):
        await ending
    await turns(20)
    assert world.stored().state is (S.COMPLETE_COMMIT if is_in_log else S.ONGOING)
    assert await ended(world, producer) == (7, 1)
    await turns(20)
    assert {marker[:3] for written in world.leaders.written.values() for marker in written} == {(7, 1, True)}
    assert world.stored().state is S.COMPLETE_COMMIT


@told_by(in_transaction_world)
async def test_a_failed_write_that_is_in_the_log_does_not_undo_the_next(world: TransactionWorld) -> None:
    """The first commit is refused for want of replicas, yet stays in the log; the client gives up and aborts."""
    producer = await world.initialize()
    await world.add(producer, A)
    world.log.is_held = True
    ending = asyncio.ensure_future(world.end(producer))
    await turns()
    world.log.release(errors.NotEnoughReplicas("one is left"))
    with pytest.raises(errors.CoordinatorNotAvailable):
        await ending
    assert await ended(world, producer, is_commit=False) == (7, 1)
    await turns(20)
    await world.restart()
    await turns(20)
    assert world.stored().state is S.COMPLETE_ABORT
    assert {marker[2] for marker in world.leaders.written[A]} == {False}


# --- the last epochs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
@told_by(in_transaction_world)
async def test_the_last_epochs_survive_failovers_at_any_step(world: TransactionWorld, seed: int) -> None:
    """KAFKA-18660, KAFKA-19367, KAFKA-20090, KAFKA-20310, KAFKA-20357: each a way to be stuck at the last epoch."""
    chance = random.Random(seed)
    await world.initialize()
    producer = set_epoch(world, 32_763)
    used: list[ProducerIdentity] = []
    is_over = asyncio.Event()

    async def disturb() -> None:
        while not is_over.is_set():
            await asyncio.sleep(chance.uniform(0.0, 0.3))
            what = chance.randrange(3)
            if what == 0:
                await world.restart()
            elif what == 1:
                world.log.fail_with = errors.NotEnoughReplicas("one is left")
                await asyncio.sleep(chance.uniform(0.0, 0.2))
                world.log.fail_with = None
            else:
                world.leaders.lost_answers = 1

    disturbing = asyncio.ensure_future(disturb())
    for _ in range(12):
        await served(world.add, producer, A, B)
        used.append(producer)
        await asyncio.sleep(chance.uniform(0.0, 0.1))
        producer = ProducerIdentity(*await ended(world, producer, is_commit=chance.random() < 0.5))
    is_over.set()
    await disturbing
    await asyncio.sleep(5)
    assert world.stored().state in (S.COMPLETE_COMMIT, S.COMPLETE_ABORT)
    assert len(set(used)) == 12, "no two transactions have one identity"
    assert used == sorted(used)
    assert {one.producer_id for one in used} != {7}, "the epochs went beyond the last"
    outcomes: dict[tuple[int, int], set[bool]] = {}
    for producer_id, epoch, is_commit, _, _ in world.leaders.written[A]:
        outcomes.setdefault((producer_id, epoch), set()).add(is_commit)
    assert all(len(found) == 1 for found in outcomes.values()), "one outcome for each transaction"
    assert len(outcomes) == 12


@pytest.mark.parametrize("level", [TV0, TV2])
def test_a_timeout_at_the_last_epoch_leaves_the_id_usable(level: int) -> None:
    async def story(world: TransactionWorld) -> None:
        await world.initialize(timeout_ms=1000)
        producer = set_epoch(world, 32_766)
        await world.add(producer, A, version=level)
        await asyncio.sleep(4)
        await world.restart()
        with pytest.raises((transaction_errors.ProducerFenced, transaction_errors.InvalidProducerIdMapping)):
            await world.add(producer, B, version=level)
        again = await world.initialize()
        assert again.producer_id > 7
        await world.add(again, B, version=level)
        await world.end(again, version=level)
        await turns(20)
        assert world.stored().state is S.COMPLETE_COMMIT

    in_transaction_world(story, level=level)


# --- timeouts ---------------------------------------------------------------------------------------------------


@told_by(in_transaction_world)
async def test_an_end_that_meets_the_abort_of_its_timeout_learns_of_it(world: TransactionWorld) -> None:
    producer = await world.initialize(timeout_ms=1000)
    await world.add(producer, A)
    world.log.is_held = True
    await asyncio.sleep(3)
    for is_commit in (True, False):
        with pytest.raises(ConcurrentTransactions):
            await world.end(producer, is_commit=is_commit)
    world.leaders.gate = asyncio.Event()
    world.log.release()
    await turns()
    for is_commit in (True, False):
        with pytest.raises(ConcurrentTransactions):
            await world.end(producer, is_commit=is_commit)
    world.leaders.gate.set()
    await turns(20)
    with pytest.raises(transaction_errors.ProducerFenced):
        await world.end(producer)
    assert await world.end(producer, is_commit=False) == (7, 1), "the client continues with the next epoch"
    assert {marker[2] for marker in world.leaders.written[A]} == {False}


@told_by(in_transaction_world)
async def test_a_commit_wins_while_a_timeout_waits_for_a_producer_id(world: TransactionWorld) -> None:
    """The abort at the last epoch asks the controller for an id. By its answer the transaction may have ended
    otherwise."""
    await world.initialize(timeout_ms=1000)
    producer = set_epoch(world, 32_766)
    await world.add(producer, A)
    gate = asyncio.Event()
    give = world.ids.next
    waiting: list[None] = []

    async def slow() -> int:
        waiting.append(None)
        if len(waiting) == 1:
            await gate.wait()
        return await give()

    world.ids.next = slow  # type: ignore[method-assign]
    await asyncio.sleep(2.5)
    assert len(waiting) == 1, "the abort waits for its producer id"
    assert await world.end(producer) == (8, 0)
    await turns(20)
    gate.set()
    await asyncio.sleep(3)
    assert world.stored().state is S.COMPLETE_COMMIT
    assert {marker[2] for marker in world.leaders.written[A]} == {True}
    assert world.coordinator.sweeps.timed_out == 0


def test_a_defect_at_one_id_leaves_the_timeouts_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(world: TransactionWorld) -> None:
        abort = world.coordinator.sweeps._abort
        failures = 0

        async def failing(shard: Any, found: TransactionalId) -> None:
            nonlocal failures
            if found.name == "tx" and failures < 3:
                failures += 1
                raise ValueError("a defect")
            await abort(shard, found)

        monkeypatch.setattr(world.coordinator.sweeps, "_abort", failing)
        for name in ("tx", "other"):
            producer = await world.initialize(name, timeout_ms=1000)
            await world.add(producer, A, name=name)
        await asyncio.sleep(3)
        assert (world.stored("other").state, failures > 0) == (S.COMPLETE_ABORT, True)
        await asyncio.sleep(5)
        assert (world.stored().state, failures) == (S.COMPLETE_ABORT, 3)

    in_transaction_world(story)


# --- instances and generations ----------------------------------------------------------------------------------


@told_by(in_transaction_world)
async def test_instances_that_begin_an_id_at_once_get_one_producer_id(world: TransactionWorld) -> None:
    outcomes = await asyncio.gather(*(world.initialize("new") for _ in range(3)), return_exceptions=True)
    identities = [one for one in outcomes if isinstance(one, ProducerIdentity)]
    assert identities, outcomes
    assert len(set(identities)) == len(identities), "each instance has an epoch of its own"
    assert len({one.producer_id for one in identities}) == 1
    assert all(isinstance(one, (ProducerIdentity, ConcurrentTransactions)) for one in outcomes)


@pytest.mark.parametrize("before", [TV0, TV1])
def test_a_producer_lives_through_an_upgrade_to_version_2(before: int) -> None:
    """The level rises while a transaction of version 1 is open. Java begins version 2 with an InitProducerId."""

    async def story(world: TransactionWorld) -> None:
        producer = await world.initialize()
        await world.add(producer, A, version=TV0)
        world.level = TV2
        await world.restart()
        assert await world.end(producer, version=TV0) == (7, 0)
        await turns(20)
        upgraded = await world.initialize(given=producer)
        assert upgraded == (7, 1)
        await world.add(upgraded, A, version=TV2)
        with pytest.raises(transaction_errors.ProducerFenced):
            await world.end(producer, version=TV0)
        assert await world.end(upgraded) == (7, 2)
        await turns(20)
        # One more instance of the old client takes over: its epoch stays over ends.
        old = await world.initialize()
        await world.add(old, B, version=TV0)
        assert tuple(await world.end(old, version=TV0)) == (7, 3)
        await turns(20)
        assert [marker[1:3] for marker in world.leaders.written[A]] == [(0, True), (2, True)]
        assert [marker[1:3] for marker in world.leaders.written[B]] == [(3, True)]
        assert [marker[4] for marker in world.leaders.written[A]] == [TV0, TV2]

    in_transaction_world(story, level=before)


@pytest.mark.parametrize("after", [TV0, TV1])
@told_by(in_transaction_world)
async def test_an_open_transaction_of_version_2_ends_after_a_downgrade(
    world: TransactionWorld, after: int
) -> None:
    producer = await world.initialize(timeout_ms=5000)
    await world.add(producer, A)
    world.level = after
    await world.restart()
    await asyncio.sleep(8)
    assert world.stored().state is S.COMPLETE_ABORT
    ((producer_id, epoch, is_commit, _, _),) = world.leaders.written[A]
    assert (producer_id, is_commit) == (7, False)
    assert epoch == 1, "above that of the data, so the producer is fenced"
    with pytest.raises(transaction_errors.ProducerFenced):
        await world.add(producer, B)
    assert (await world.initialize()).producer_epoch == 2
