"""Bugs of authorization and quotas that are planted on purpose are found by the simulation's guests."""

from __future__ import annotations

from typing import Any, Final

import pytest

from odradek.broker.requests.rights import table
from odradek.broker.requests.rights.rules import nothing
from odradek.broker.requests.throttling import ClientThrottling
from odradek.network.ending import Mute
from odradek.security.authorization.acl_matching import AclIndex
from odradek.security.authorization.authorizer import Authorizer
from odradek.wire.protocol.api import ApiKey
from tests.simulation.planting import Bug, must_find

pytestmark = pytest.mark.thorough

NO_FAULTS: Final = ("heal",)


def _forget_the_check_of(api: ApiKey) -> Any:
    def plant(patch: pytest.MonkeyPatch) -> None:
        # Controllers have the one table, brokers the other.
        patch.setitem(table.CHECKS, api, nothing)
        patch.setitem(table.FORWARDING_CHECKS, api, nothing)

    return plant


def _keep_decisions(patch: pytest.MonkeyPatch) -> None:
    """What was decided once stays decided, whatever ACLs there are."""

    def replace(self: Authorizer, index: AclIndex) -> None:
        self._index = index
        self.version += 1

    patch.setattr(Authorizer, "replace", replace)


def _keep_what_connections_know(patch: pytest.MonkeyPatch) -> None:
    """A change of the ACLs has the number of the one before."""

    def replace(self: Authorizer, index: AclIndex) -> None:
        self._index = index
        self._decisions = {}

    patch.setattr(Authorizer, "replace", replace)


def _outlive_the_quota(patch: pytest.MonkeyPatch) -> None:
    """A client waits on after its quota is removed."""
    patch.setattr(ClientThrottling, "_still_due_ms", lambda self, meter: meter.excess_ms(self.now_ms()))


def _wait_without_an_end(patch: pytest.MonkeyPatch) -> None:
    """A mute begins another step after each."""
    patch.setattr(Mute, "_end_step", lambda self: self._begin_step(1.0))


BUGS: Final = [
    *(
        Bug(_forget_the_check_of(api), NO_FAULTS, ("I14",), actors=("guests",), faults=1)
        for api in (ApiKey.PRODUCE, ApiKey.DELETE_RECORDS, ApiKey.OFFSET_FETCH, ApiKey.CREATE_ACLS)
    ),
    Bug(_keep_decisions, NO_FAULTS, ("I14",), actors=("guests",), faults=1),
    Bug(_keep_what_connections_know, NO_FAULTS, ("I14",), actors=("guests",), faults=1),
    Bug(_outlive_the_quota, NO_FAULTS, ("I15",), actors=("guests",), faults=1),
    Bug(_wait_without_an_end, NO_FAULTS, ("I15",), actors=("guests",), faults=1),
]


@pytest.mark.parametrize("bug", BUGS, ids=[f"{number}" for number in range(len(BUGS))])
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    must_find(bug, monkeypatch)
