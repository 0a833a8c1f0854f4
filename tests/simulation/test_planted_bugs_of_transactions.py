"""Bugs of transactions planted on purpose: in the coordinator, in leaders, in groups, and in the client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Final

import pytest

from odradek.broker.groups.pending_offsets import PendingOffsets
from odradek.broker.replication.partition_reader import PartitionReader
from odradek.broker.replication.replica import Replica
from odradek.broker.transactions import coordinator, decisions
from odradek.broker.transactions.coordinator import TransactionCoordinator
from odradek.broker.transactions.metadata import PREPARE_STATES, TransactionMetadata
from odradek.broker.transactions.state_machine import TransactionStateMachine
from odradek.broker.transactions.sweeps import Sweeps
from odradek.client.consumer.group import GroupConsumer
from odradek.client.consumer.positions import PartitionPosition
from odradek.client.group_metadata import GroupMetadata
from odradek.storage.open_transactions import OpenTransactions
from odradek.storage.producers import ProducerStates
from tests.simulation.faults import KINDS
from tests.simulation.planting import Bug, must_find

pytestmark = pytest.mark.thorough

ACTORS: Final = ("transactions",)
CRASHES: Final = ("crash", "expire_broker", "isolate_broker", "heal")
RESETS: Final = ("reset", "sever_broker")
# What is under way stays so for longer, and more of it is lost.
SLOW: Final = ("slow_network", "crash", "isolate_broker")


def _answer_ends_at_once(patch: pytest.MonkeyPatch) -> None:
    """EndTxn is answered before the outcome is in the log."""
    write = TransactionCoordinator._write

    def answered(self: Any, shard: Any, found: Any, metadata: TransactionMetadata) -> Awaitable[None]:
        written = write(self, shard, found, metadata)
        if metadata.state not in PREPARE_STATES:
            return written
        asyncio.ensure_future(written).add_done_callback(lambda done: done.cancelled() or done.exception())
        return asyncio.sleep(0)

    patch.setattr(TransactionCoordinator, "_write", answered)


def _append_without_verification(patch: pytest.MonkeyPatch) -> None:
    """A leader takes a transaction's records without its coordinator's word."""
    patch.setattr(ProducerStates, "begin_verification", lambda self, *_, **__: None)
    patch.setattr(ProducerStates, "_check_verified", lambda self, *_, **__: None)


def _show_aborted_records(patch: pytest.MonkeyPatch) -> None:
    """Readers learn of no aborted transaction."""
    patch.setattr(PartitionReader, "find_aborted_transactions", lambda *_: [])


def _show_open_transactions(patch: pytest.MonkeyPatch) -> None:
    """The last stable offset is the high watermark."""
    patch.setattr(Replica, "last_stable_offset", property(lambda self: self.high_watermark))


def _show_one_record_too_many(patch: pytest.MonkeyPatch) -> None:
    """The last stable offset is taken for the last one that may be read."""
    stable = OpenTransactions.last_stable_offset

    def one_more(self: OpenTransactions, *, high_watermark: int) -> int:
        return min(stable(self, high_watermark=high_watermark) + 1, high_watermark)

    patch.setattr(OpenTransactions, "last_stable_offset", one_more)


def _let_transactions_stay_open(patch: pytest.MonkeyPatch) -> None:
    """Nothing aborts a transaction that is open for too long."""

    async def nothing(self: Sweeps) -> None:
        return

    patch.setattr(Sweeps, "abort_round", nothing)


def _believe_any_epoch(patch: pytest.MonkeyPatch) -> None:
    """The coordinator does not look at a producer's epoch."""
    patch.setattr(decisions, "_check_producer", lambda stored, producer: None)


def _forget_what_is_open(patch: pytest.MonkeyPatch) -> None:
    """A snapshot's open transactions are not restored."""
    patch.setattr(OpenTransactions, "restore", lambda self, transactions: self.clear())


def _forget_markers_at_a_failover(patch: pytest.MonkeyPatch) -> None:
    """A new coordinator does not send the markers that the last one left."""
    patch.setattr(coordinator, "TransactionStateMachine", _without_resuming(TransactionStateMachine))


def _without_resuming(machine: Any) -> Any:
    def make(shard: Any, **named: Any) -> Any:
        return machine(shard, **{**named, "resume": lambda *_: None})

    return make


def _abort_without_a_fence(patch: pytest.MonkeyPatch) -> None:
    """The abort of a timeout leaves the producer its epoch."""

    def abort(
        stored: TransactionMetadata, *, now_ms: int, version_level: int, **_: Any
    ) -> TransactionMetadata:
        return stored.prepare(is_commit=False, client_version=0, now_ms=now_ms, raises_epoch=False)

    patch.setattr(decisions, "abort_by_server", abort)


def _let_an_instance_go_on(patch: pytest.MonkeyPatch) -> None:
    """A new instance of a producer takes over what the last one has open, under the same epoch."""
    initialize = decisions.initialize

    def take_over(stored: TransactionMetadata, **named: Any) -> TransactionMetadata:
        if stored.state.name == "ONGOING" and not named["is_pending"]:
            return stored
        return initialize(stored, **named)

    patch.setattr(decisions, "initialize", take_over)


def _count_offsets_at_once(patch: pytest.MonkeyPatch) -> None:
    """A transaction's offsets count although it is aborted."""
    end = PendingOffsets.end
    patch.setattr(
        PendingOffsets, "end", lambda self, producer_id, *, is_commit: end(self, producer_id, is_commit=True)
    )


def _forget_pending_offsets(patch: pytest.MonkeyPatch) -> None:
    """A marker commits no offset."""
    end = PendingOffsets.end
    patch.setattr(
        PendingOffsets, "end", lambda self, producer_id, *, is_commit: end(self, producer_id, is_commit=False)
    )


def _commit_without_a_member(patch: pytest.MonkeyPatch) -> None:
    """A consumer does not say which member it is, so one that lost its partitions still commits."""
    patch.setattr(GroupConsumer, "group_metadata", lambda self: GroupMetadata(self._group_id))


def _hand_out_what_is_aborted(patch: pytest.MonkeyPatch) -> None:
    """A consumer does not look at the list of aborted transactions."""
    add = PartitionPosition.add
    patch.setattr(PartitionPosition, "add", lambda self, data, aborted: add(self, data, ()))


BUGS: Final = [
    Bug(_answer_ends_at_once, SLOW, ("I8",), ACTORS, seed_first=54),
    Bug(_append_without_verification, KINDS, ("I4", "I8"), ACTORS),
    Bug(_show_aborted_records, RESETS, ("I8",), ACTORS),
    Bug(_show_open_transactions, RESETS, ("I8",), ACTORS),
    Bug(_show_one_record_too_many, RESETS, ("I8",), ACTORS),
    Bug(_let_transactions_stay_open, CRASHES, ("I8",), ACTORS),
    Bug(_believe_any_epoch, RESETS, ("I4", "I8"), ACTORS, seed_first=14),
    Bug(_forget_what_is_open, ("restart",), ("I8",), ACTORS, seed_first=12),
    Bug(_forget_markers_at_a_failover, SLOW, ("I8",), ACTORS, seed_first=27),
    Bug(_abort_without_a_fence, RESETS, ("I8",), ACTORS),
    Bug(_let_an_instance_go_on, RESETS, ("I4", "I8"), ACTORS),
    Bug(_count_offsets_at_once, RESETS, ("I8",), ACTORS),
    Bug(_forget_pending_offsets, RESETS, ("I4", "I8"), ACTORS),
    Bug(_commit_without_a_member, KINDS, ("I4", "I8"), ACTORS, seed_first=13),
    Bug(_hand_out_what_is_aborted, RESETS, ("I8",), ACTORS),
]


# Found by the longest of histories: two minutes.
_LONGEST: Final = (_let_transactions_stay_open,)


@pytest.mark.parametrize(
    "bug",
    [
        pytest.param(
            bug,
            id=bug.plant.__name__.strip("_"),
            marks=pytest.mark.proof if bug.plant in _LONGEST else (),
        )
        for bug in BUGS
    ],
)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    must_find(bug, monkeypatch)
