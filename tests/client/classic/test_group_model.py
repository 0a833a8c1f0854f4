"""Histories of the model of Algorithm 1, and bugs that are planted to see that it finds them."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pytest

from odradek.client.classic import connector as shares_module
from odradek.client.classic import consumer_paths as paths
from odradek.client.classic.connector import Connector
from odradek.client.classic.group_nodes import GroupNodes
from odradek.client.classic.group_offsets import GroupOffsets, Starts
from odradek.client.classic.lease import Lease
from odradek.client.classic.streams import StreamBuffer
from odradek.foundation.ids import TopicPartition
from odradek.foundation.registry_errors import NodeExists, NoNode
from odradek.metadata.registry.store import Create
from tests.client.classic import group_model

pytestmark = pytest.mark.thorough

# Ten thousand are for `python -m tests.client.classic.group_model`.
SEEDS = int(os.environ.get("ODRADEK_GROUP_SEEDS", "25"))
SEEDS_FOR_A_BUG = 60


def test_groups_settle_and_hand_out_only_what_they_own() -> None:
    for seed in range(SEEDS):
        group_model.run(seed)


def floor_without_remainder(patch: pytest.MonkeyPatch) -> None:
    """The documents' own rule: size(P)/size(C) partitions for each."""

    def shares(partitions: Collection[int], threads: Collection[str]) -> dict[int, str]:
        ordered = sorted(threads)
        each = len(partitions) // len(ordered) if ordered else 0
        numbers = sorted(partitions)
        return {
            numbers[at]: thread for i, thread in enumerate(ordered) for at in range(i * each, (i + 1) * each)
        }

    patch.setattr(shares_module, "shares", shares)


def sort_threads_by_number(patch: pytest.MonkeyPatch) -> None:
    """`-2` before `-10`, unlike Kafka's own consumers."""
    real = shares_module.shares

    def shares(partitions: Collection[int], threads: Collection[str]) -> dict[int, str]:
        def by_number(thread: str) -> tuple[str, int]:
            name, _, number = thread.rpartition("-")
            return name, int(number)

        places = {f"{place:09}": thread for place, thread in enumerate(sorted(threads, key=by_number))}
        return {number: places[place] for number, place in real(partitions, places).items()}

    patch.setattr(shares_module, "shares", shares)


def trust_the_session_for_ever(patch: pytest.MonkeyPatch) -> None:
    """A stream does not look how long ZooKeeper has been silent."""
    patch.setattr(Lease, "extend", lambda self, asked_at: setattr(self, "until", float("inf")))
    patch.setattr(Lease, "end", lambda self: None)


def read_offsets_before_the_claim(patch: pytest.MonkeyPatch) -> None:
    """As Kafka's own consumers: the owner before may still commit in between."""
    claim, offsets = GroupNodes.claim, GroupNodes.offsets
    early: dict[int, dict[TopicPartition, int]] = {}

    async def claim_late(self: GroupNodes, threads: Mapping[TopicPartition, str]) -> bool:
        early[id(self)] = await offsets(self, list(threads))
        return await claim(self, threads)

    async def offsets_of_before(
        self: GroupNodes, keys: Sequence[TopicPartition]
    ) -> dict[TopicPartition, int]:
        await offsets(self, keys)
        return early[id(self)]

    patch.setattr(GroupNodes, "claim", claim_late)
    patch.setattr(GroupNodes, "offsets", offsets_of_before)


def release_before_reading_has_stopped(patch: pytest.MonkeyPatch) -> None:
    """Owner nodes go first, and the streams end later."""
    give_up = Connector._give_up

    async def early(self: Connector, held: Mapping[TopicPartition, int], caller: object = None) -> None:
        await self._nodes.release(held)
        await give_up(self, held, caller)

    patch.setattr(Connector, "_give_up", early)


def commit_after_release(patch: pytest.MonkeyPatch) -> None:
    """What was consumed is committed when the partitions are another's."""

    async def late(self: Connector, held: Mapping[TopicPartition, int], caller: object = None) -> None:
        buffers = [buffer for buffer in self.buffers.values() if buffer in self._readers]
        for buffer in buffers:
            buffer.revoke()
            await self._readers.pop(buffer).close()
            await buffer.wait_until_asked(2)
        await self._nodes.release(held)
        await self._commit(self._positions())
        self._held = {}

    patch.setattr(Connector, "_give_up", late)


def forget_what_is_in_hand(patch: pytest.MonkeyPatch) -> None:
    """A rebalance does not wait for the record that the program works on."""

    async def at_once(self: StreamBuffer, seconds_max: float) -> None:
        return

    patch.setattr(StreamBuffer, "wait_until_asked", at_once)


def delete_owners_of_any_session(patch: pytest.MonkeyPatch) -> None:
    """A release does not look whose the node is."""

    async def release(self: GroupNodes, partitions: Collection[TopicPartition]) -> None:
        for key in list(partitions):
            try:
                await self._store.delete(paths.owner(self._group, key))
            except NoNode:
                continue

    async def claim(self: GroupNodes, threads: Mapping[TopicPartition, str]) -> bool:
        for topic in {key.topic for key in threads}:
            await self._make(paths.owners(self._group, topic))
        await release(self, list(threads))
        try:
            for key, thread in threads.items():
                await self._store.multi(
                    [Create(paths.owner(self._group, key), thread.encode(), ephemeral=True)]
                )
        except NodeExists:
            return False
        return True

    patch.setattr(GroupNodes, "release", release)
    patch.setattr(GroupNodes, "claim", claim)


def watch_only_the_group(patch: pytest.MonkeyPatch) -> None:
    """New partitions and topics change nothing."""
    watch = Connector._watch

    def some(self: Connector, path: str) -> None:
        if not path.startswith(paths.TOPICS):
            watch(self, path)

    patch.setattr(Connector, "_watch", some)


def give_up_after_one_try(patch: pytest.MonkeyPatch) -> None:
    """A claim that failed is not tried again."""
    rebalance = Connector._rebalance

    async def once(self: Connector) -> bool:
        await rebalance(self)
        return True

    patch.setattr(Connector, "_rebalance", once)


def read_nothing_without_all_leaders(patch: pytest.MonkeyPatch) -> None:
    """One partition without a leader keeps a consumer from all of its partitions."""
    find_first = GroupOffsets.find_first

    async def all_or_none(self: GroupOffsets, partitions: Collection[TopicPartition]) -> Starts:
        found = await find_first(self, partitions)
        for failure in found.failures.values():
            raise failure
        return found

    patch.setattr(GroupOffsets, "find_first", all_or_none)


def forget_what_has_no_leader(patch: pytest.MonkeyPatch) -> None:
    """What had no leader when it was claimed is never read."""
    patch.setattr(Connector, "_note_unstarted", lambda self, starts: None)


BUGS: list[Callable[[pytest.MonkeyPatch], None]] = [
    floor_without_remainder,
    sort_threads_by_number,
    trust_the_session_for_ever,
    read_offsets_before_the_claim,
    release_before_reading_has_stopped,
    commit_after_release,
    forget_what_is_in_hand,
    delete_owners_of_any_session,
    watch_only_the_group,
    give_up_after_one_try,
    read_nothing_without_all_leaders,
    forget_what_has_no_leader,
]


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(SEEDS_FOR_A_BUG):
        try:
            group_model.run(seed)
        except group_model.Violation as found:
            print(f"{plant.__name__}: {found}")
            return
    pytest.fail(f"{SEEDS_FOR_A_BUG} histories did not show it")
