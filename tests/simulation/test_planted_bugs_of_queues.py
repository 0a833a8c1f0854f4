"""Bugs in share groups, on brokers and in the product's client, are found by the simulation."""

from __future__ import annotations

from typing import Any, Final

import pytest

from odradek.broker.share_states.batches import StateBatches
from odradek.broker.share_states.state_machine import KeptState
from odradek.broker.shares.in_flight import InFlight
from odradek.broker.shares.share_partition import SharePartition
from odradek.client.client import Client
from tests.simulation.planting import Bug, must_find

pytestmark = [pytest.mark.thorough, pytest.mark.virtual]

_ACTORS: Final = ("queues",)
_INTERRUPTIONS: Final = (
    "reset",
    "cut",
    "cut_from_all",
    "isolate_broker",
    "crash",
    "expire_broker",
    "restart",
)


def _begin_beside_late_writes(patch: pytest.MonkeyPatch) -> None:
    """A share-partition is loaded while a state of it is still being written for the sessions before."""
    patch.setattr(SharePartition, "writes_under_way", None)


def _answer_before_it_is_stored(patch: pytest.MonkeyPatch) -> None:
    """A member is answered while its acknowledgement is still being stored."""
    store = SharePartition._store

    def store_later(self: SharePartition, change: Any) -> None:
        stored = store(self, change)
        if stored is not None:
            stored.add_done_callback(lambda done: done.exception())

    patch.setattr(SharePartition, "_store", store_later)


def _load_no_states(patch: pytest.MonkeyPatch) -> None:
    """A new leader takes the start offset alone."""
    patch.setattr(InFlight, "load", classmethod(lambda cls, start_offset, states: cls(start_offset)))


def _forget_the_ends_of_updates(patch: pytest.MonkeyPatch) -> None:
    """An update changes the start offset, and no state of a record."""
    update = KeptState.update
    patch.setattr(KeptState, "update", lambda self, value: update(self, value._replace(state_batches=())))


def _forget_states_in_snapshots(patch: pytest.MonkeyPatch) -> None:
    """A snapshot has the start offset alone."""
    take = KeptState.next_snapshot

    def take_head(self: KeptState, now_ms: int) -> Any:
        self.batches = StateBatches(())
        return take(self, now_ms)

    patch.setattr(KeptState, "next_snapshot", take_head)


def _move_the_start_too_far(patch: pytest.MonkeyPatch) -> None:
    """Records that are still to be done count as done when one behind them is."""

    def move_start(self: InFlight) -> None:
        done = [number for number, batch in enumerate(self.batches) if all(run.is_done for run in batch.runs)]
        self._drop(done[-1] + 1 if done else 0)

    patch.setattr(InFlight, "move_start", move_start)


def _ask_the_former_coordinator(patch: pytest.MonkeyPatch) -> None:
    """The client does not look for the coordinator again."""
    retry = Client.with_retries
    patch.setattr(
        Client,
        "with_retries",
        lambda self, attempt, *, group_id=None, **options: retry(self, attempt, **options),
    )


def _deliver_without_a_limit(patch: pytest.MonkeyPatch) -> None:
    """A record that is released comes again, however often it was delivered."""
    rules = SharePartition._delivery_rules
    patch.setattr(
        SharePartition,
        "_delivery_rules",
        lambda self: rules(self)._replace(delivery_count_max=1_000),
    )


BUGS: Final = [
    Bug(_begin_beside_late_writes, _INTERRUPTIONS, ("I16", "I12"), _ACTORS, seed_first=84),
    Bug(_answer_before_it_is_stored, _INTERRUPTIONS, ("I16",), _ACTORS, seed_first=12),
    Bug(_load_no_states, _INTERRUPTIONS, ("I16",), _ACTORS, seed_first=1),
    Bug(_forget_the_ends_of_updates, _INTERRUPTIONS, ("I16",), _ACTORS, seed_first=1),
    Bug(_forget_states_in_snapshots, _INTERRUPTIONS, ("I16",), _ACTORS, seed_first=1),
    Bug(_move_the_start_too_far, _INTERRUPTIONS, ("I16", "I12"), _ACTORS, seed_first=12),
    Bug(_ask_the_former_coordinator, _INTERRUPTIONS, ("I12",), _ACTORS, seed_first=4),
    Bug(_deliver_without_a_limit, _INTERRUPTIONS, ("I16",), _ACTORS),
]


@pytest.mark.parametrize("bug", BUGS, ids=[bug.plant.__name__.strip("_") for bug in BUGS])
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    must_find(bug, monkeypatch)
