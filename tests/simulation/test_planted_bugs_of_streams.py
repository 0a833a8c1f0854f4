"""Bugs in the coordination of Streams groups are found by the simulation."""

from __future__ import annotations

from typing import Any, Final

import pytest

from odradek.broker.groups.streams import assignor, reconciliation, requests, update
from odradek.broker.groups.streams.group import StreamsGroup
from tests.simulation.planting import Bug, must_find

pytestmark = [pytest.mark.thorough, pytest.mark.virtual]

_ACTORS: Final = ("streams",)
_INTERRUPTIONS: Final = ("reset", "cut", "cut_from_all", "isolate_broker", "crash")


def _answer_each_change_once(patch: pytest.MonkeyPatch) -> None:
    """A member that has missed an answer never learns its tasks."""
    patch.setattr(requests, "_runs_others", lambda owned, current: False)


def _grant_tasks_at_once(patch: pytest.MonkeyPatch) -> None:
    """A member gets a task although another one has not given it up."""
    patch.setattr(reconciliation._Step, "_is_active_elsewhere", lambda self, task: False)


def _take_commits_of_former_owners(patch: pytest.MonkeyPatch) -> None:
    """A member that was put out of its group commits where it was."""
    patch.setattr(StreamsGroup, "validate_offset_commit", lambda self, by: None)


def _assign_no_standbys(patch: pytest.MonkeyPatch) -> None:
    """The setting for standby tasks has no effect."""
    assign = assignor.assign_tasks

    def without_standbys(members: Any, subtopologies: Any, *, standby_replicas: int) -> Any:
        return assign(members, subtopologies, standby_replicas=0)

    patch.setattr(update, "assign_tasks", without_standbys)


BUGS: Final = [
    Bug(_answer_each_change_once, _INTERRUPTIONS, ("I12",), _ACTORS, seed_first=16),
    Bug(_grant_tasks_at_once, _INTERRUPTIONS, ("I9",), _ACTORS, seed_first=13),
    Bug(_take_commits_of_former_owners, _INTERRUPTIONS, ("I9",), _ACTORS, seed_first=13),
    Bug(_assign_no_standbys, _INTERRUPTIONS, ("I12",), _ACTORS, faults=1),
]


@pytest.mark.parametrize("bug", BUGS, ids=[bug.plant.__name__.strip("_") for bug in BUGS])
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    must_find(bug, monkeypatch)
