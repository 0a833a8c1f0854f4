"""Days of Topics and Users, and days of an operator with a bug."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from odradek_operator.gateways.kubernetes import USERS
from odradek_operator.reconcilers import declared, record_keeping
from odradek_operator.reconcilers.record_keeping import KnownEntries
from odradek_operator.reconcilers.topic import decide as topic_decisions
from odradek_operator.resources.deletion import DeletionPolicy
from tests.operator.day.declared_day import DeclaredDay, Unkept
from tests.operator.support.broker_world import play
from tests.operator.support.user_world import SecuredClusterBroker, UserWorld

pytestmark = [pytest.mark.thorough, pytest.mark.integration]

SEEDS_TO_FIND_MAX = 12


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredClusterBroker]:
    made = SecuredClusterBroker(tmp_path_factory.mktemp("broker"))
    made.start()
    yield made
    made.close()


def play_day(broker: SecuredClusterBroker, seed: int, **options: Any) -> None:
    async def story(world: UserWorld) -> None:
        await DeclaredDay(world, seed, **options).play()

    play(broker, story, UserWorld)


@pytest.mark.parametrize("seed", range(1, 7))
def test_a_day_ends_as_it_was_declared(broker: SecuredClusterBroker, seed: int) -> None:
    play_day(broker, seed)


def forget_what_was_recorded(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KnownEntries, "find_lost", lambda self, record: {})


def keep_users_of_an_earlier_cluster(patch: pytest.MonkeyPatch) -> None:
    find = declared.find_absent

    def find_some(record: Any, bodies: Any, *, cluster_uid: str) -> Any:
        found = find(record, bodies, cluster_uid=cluster_uid)
        if record.api is not USERS:
            return found
        return replace(found, owed=tuple(one for one in found.owed if one.cluster_uid == cluster_uid))

    patch.setattr(record_keeping, "find_absent", find_some)


def overlook_the_policy(patch: pytest.MonkeyPatch) -> None:
    plan = record_keeping.RecordKeeper._plan_entry

    def plan_any(self: Any, work: Any, cluster_uid: str) -> Any:
        spec = replace(work.desired.spec, deletion_policy=DeletionPolicy.DELETE)
        return plan(self, replace(work, desired=replace(work.desired, spec=spec)), cluster_uid)

    patch.setattr(record_keeping.RecordKeeper, "_plan_entry", plan_any)


def leave_settings_that_were_taken_away(patch: pytest.MonkeyPatch) -> None:
    changes = topic_decisions._config_changes

    def some_changes(desired: Any, topic: Any) -> Any:
        return {key: text for key, text in changes(desired, topic).items() if text is not None}

    patch.setattr(topic_decisions, "_config_changes", some_changes)


@pytest.mark.parametrize(
    ("plant", "likely", "words"),
    [
        (forget_what_was_recorded, ("lose_record",), "has no (User|Topic), and|the record of"),
        (
            keep_users_of_an_earlier_cluster,
            ("delete_or_make_cluster", "delete_user"),
            "has no User, and brokers know it|the record of users has",
        ),
        (overlook_the_policy, ("delete_topic",), "was to stay, and its records are lost|the record of"),
        (leave_settings_that_were_taken_away, ("alter_topic_by_hand",), "the topic .* is .*, and not"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_planted_bug_is_found(
    broker: SecuredClusterBroker,
    plant: Callable[[pytest.MonkeyPatch], None],
    likely: tuple[str, ...],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    found = ""
    for seed in range(101, 101 + SEEDS_TO_FIND_MAX):
        try:
            play_day(broker, seed, actions=40, likely=likely)
        except Unkept as unkept:
            found = str(unkept)
            break
    assert re.search(words, found), found
