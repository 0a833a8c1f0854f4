"""A coordinator that moves while a transaction is past its timeout: all its partitions end alike."""

from __future__ import annotations

import asyncio

import pytest

from odradek.broker.transactions.metadata import TransactionState
from odradek.foundation.errors import OdradekError
from tests.support.coordinator_world import A, B, C, TransactionWorld, in_transaction_world, turns
from tests.support.stories import told_by

TIMEOUT_MS = 5000


def outcomes(world: TransactionWorld) -> dict[object, set[bool]]:
    """By partition, whether its markers commit."""
    return {partition: {marker[2] for marker in found} for partition, found in world.leaders.written.items()}


@told_by(in_transaction_world)
async def test_a_coordinator_that_has_moved_sends_no_abort(world: TransactionWorld) -> None:
    """redpanda#10670: the old coordinator's abort went to some partitions, the new one's commit to others."""
    producer = await world.initialize(timeout_ms=TIMEOUT_MS)
    await world.add(producer, A, B, C)
    partition = world.coordinator.runtime.partition_for("tx")
    # Another broker leads the log by now. This one has not learned of it, and its timer continues.
    world.log.led.discard(partition)
    await asyncio.sleep(TIMEOUT_MS / 1000 + 10)
    assert world.leaders.written == {}
    world.log.led.add(partition)
    await world.restart()
    # Before the new coordinator has looked at timeouts.
    await world.end(producer, is_commit=True)
    await turns(20)
    assert world.stored().state is TransactionState.COMPLETE_COMMIT
    assert outcomes(world) == {A: {True}, B: {True}, C: {True}}


@pytest.mark.parametrize("written", [0, 1, 2])
@told_by(in_transaction_world)
async def test_an_abort_that_was_decided_goes_on_elsewhere(world: TransactionWorld, written: int) -> None:
    """redpanda#10670: some partitions have the abort of the timeout when the coordinator moves."""
    producer = await world.initialize(timeout_ms=TIMEOUT_MS)
    await world.add(producer, A, B, C)
    partitions = [A, B, C]
    # NOT_LEADER_OR_FOLLOWER: these have no marker before the move.
    world.leaders.answers = {partition: [6] * 1000 for partition in partitions[written:]}
    await asyncio.sleep(TIMEOUT_MS / 1000 + 3)
    assert set(world.leaders.written) == set(partitions[:written])
    world.leaders.answers.clear()
    await world.restart()
    with pytest.raises(OdradekError):
        await world.end(producer, is_commit=True)
    await turns(20)
    assert world.stored().state is TransactionState.COMPLETE_ABORT
    assert outcomes(world) == {A: {False}, B: {False}, C: {False}}
