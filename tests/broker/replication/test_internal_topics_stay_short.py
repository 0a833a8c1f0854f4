"""The cleaner keeps the coordinators' topics short, so that a restart reads little: nothing else does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.broker.coordination.topic_log import TransactionalWriter
from odradek.broker.groups.offset_requests import UNSTABLE
from odradek.broker.groups.schema import OffsetAndMetadata
from odradek.metadata.image.topic_names import TRANSACTION_STATE
from odradek.storage.compaction import candidates
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.group_partitions import OFFSETS_TOPIC
from odradek.wire.records.control import Marker
from tests.support.cleaning import cleaning_broker, log_of
from tests.support.coordinator_world import result_of
from tests.support.whole_broker import WholeBroker

ROLL_BYTES_MIN = 16 * 1024
ENTRIES = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
METADATA = "m" * 400
PARTITIONS = 20
LIVE_BYTES = PARTITIONS * (len(METADATA) + 200)
SIZE_BYTES_MAX = 5 * (LIVE_BYTES + ROLL_BYTES_MIN)
PRODUCER_ID = 5000


@pytest.fixture(autouse=True)
def short_segments() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates, "INTERNAL_ROLL_BYTES_MIN", ROLL_BYTES_MIN)
        yield


def committed_offset(node: WholeBroker, offset: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, metadata=METADATA, commit_timestamp_ms=node.broker.clock.wall_ms())


async def commit(node: WholeBroker, partitions: range, offset: int) -> None:
    """Outside of transactions."""
    errors = await result_of(
        node.broker.coordinators.groups.offsets.commit(
            "g",
            member_id="",
            instance_id=None,
            generation=-1,
            version=9,
            commits=[("t", partition, committed_offset(node, offset)) for partition in partitions],
        )
    )
    assert set(errors) == {None}


async def commit_in_a_transaction(node: WholeBroker, partition: int, offset: int) -> None:
    """The producer's transaction stays open."""
    offsets = node.broker.coordinators.groups.offsets
    _, writer, _ = offsets.begin_verification("g", TransactionalWriter(PRODUCER_ID, 0), adds_partition=True)
    commits = [("t", partition, committed_offset(node, offset))]
    fields: dict[str, Any] = {"member_id": "", "instance_id": None, "generation": -1, "version": 5}
    errors = await result_of(offsets.commit("g", commits=commits, writer=writer, **fields))
    assert errors == [None]


async def end_transaction(node: WholeBroker, *, is_commit: bool) -> None:
    marker = Marker(PRODUCER_ID, 1, is_commit, 0, node.broker.clock.wall_ms())
    groups = node.broker.coordinators.groups
    assert await result_of(groups.offsets.complete_transaction(0, marker, transaction_version=2)) is None


def fetched(node: WholeBroker, *, is_stable: bool = False) -> dict[int, int | None]:
    """The offset by partition; None for an unstable one."""
    found = node.broker.coordinators.groups.offsets.fetch(
        "g", member_id=None, member_epoch=-1, partitions=None, require_stable=is_stable
    )
    return {key[1]: None if committed is UNSTABLE else committed.offset for key, committed in found.items()}


async def restarted(node: WholeBroker) -> WholeBroker:
    again = await node.restart()
    await again.broker.coordinators.groups.runtime.wait_until_loaded()
    return again


async def many_commits(node: WholeBroker, *, rounds: int) -> int:
    """Commit all partitions over and over; the most bytes that the log had."""
    log = log_of(node, OFFSETS_TOPIC)
    largest = 0
    for number in range(rounds):
        await commit(node, range(PARTITIONS), number)
        await asyncio.sleep(1)
        largest = max(largest, log.size_bytes)
    return largest


@pytest.mark.thorough
async def test_the_offsets_topic_stays_a_few_times_its_live_state() -> None:
    node = await cleaning_broker(ENTRIES)
    await node.broker.coordinators.groups.ensure_topic()
    largest = await many_commits(node, rounds=400)
    log = log_of(node, OFFSETS_TOPIC)
    assert (
        node.broker.coordinators.groups.runtime.shard_of_partition(0).writer.bytes_written
        > 20 * SIZE_BYTES_MAX
    )
    assert largest < SIZE_BYTES_MAX
    assert (log.log_start_offset, log.log_end_offset) == (0, 400 * PARTITIONS)
    node = await restarted(node)
    assert fetched(node) == dict.fromkeys(range(PARTITIONS), 399)


@pytest.mark.parametrize("is_commit", [True, False])
async def test_pending_offsets_of_an_open_transaction_survive(is_commit: bool) -> None:
    """Nothing above the last stable offset is compacted. Once the transaction ends, the later record wins."""
    node = await cleaning_broker(ENTRIES)
    await node.broker.coordinators.groups.ensure_topic()
    await many_commits(node, rounds=40)
    await commit_in_a_transaction(node, 50, 1000)
    await commit_in_a_transaction(node, 0, 1000)
    await many_commits(node, rounds=40)
    node = await restarted(node)
    found = fetched(node, is_stable=True)
    assert (found[0], found[1]) == (None, 39)
    log = log_of(node, OFFSETS_TOPIC)
    stable = node.broker.partitions.get(OFFSETS_TOPIC, 0).last_stable_offset
    assert log.offsets.cleaned_offset <= stable < log.log_end_offset
    await end_transaction(node, is_commit=is_commit)
    # Ends the transaction's segment, too: the cleaner takes the offsets and the marker with it.
    largest = await many_commits(node, rounds=200)
    assert log_of(node, OFFSETS_TOPIC).offsets.cleaned_offset > stable + 2
    log = log_of(node, OFFSETS_TOPIC)
    # A segment that was closed just now may wait for its round.
    assert log.size_bytes < 2 * SIZE_BYTES_MAX < largest
    expected = dict.fromkeys(range(PARTITIONS), 199) | ({50: 1000} if is_commit else {})
    assert fetched(node) == expected
    node = await restarted(node)
    assert fetched(node, is_stable=True) == expected


@pytest.mark.thorough
async def test_the_transactions_topic_stays_a_few_times_its_live_state() -> None:
    node = await cleaning_broker(ENTRIES)

    async def epoch_after_init(name: str) -> SimpleNamespace:
        while True:
            answer = await node.ask(
                ApiKey.INIT_PRODUCER_ID,
                4,
                transactional_id=name,
                transaction_timeout=60_000,
                producer_id=-1,
                producer_epoch=-1,
            )
            if answer.error_code == 0:
                return SimpleNamespace(id=answer.producer_id, epoch=answer.producer_epoch)
            # The coordinator's topic is being made or loaded.
            await asyncio.sleep(0.1)

    await node.broker.control.controller.ensure_topic(TRANSACTION_STATE)
    largest = 0
    for number in range(1500):
        last = await epoch_after_init(f"id-{number % 5}")
        if number % 20 == 0:
            await asyncio.sleep(1)
            largest = max(largest, log_of(node, TRANSACTION_STATE).size_bytes)
    log = log_of(node, TRANSACTION_STATE)
    assert log.log_end_offset == 1500
    assert largest < 5 * ROLL_BYTES_MIN
    node = await node.restart()
    again = await epoch_after_init("id-4")
    assert (again.id, again.epoch) == (last.id, last.epoch + 1)
