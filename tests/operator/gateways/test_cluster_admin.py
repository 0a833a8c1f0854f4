"""How brokers are emptied before they go. Their own answers are stood in for."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from odradek.client.admin.brokers import DrainProgress
from odradek.client.admin.disks import Directories
from odradek.client.errors import ConnectionFailed
from odradek.client.results import LogDirectoryDescription
from odradek.foundation.errors import InvalidRequest
from odradek_operator.foundation.keys import Key
from odradek_operator.gateways import cluster_admin
from odradek_operator.gateways.cluster_admin import HttpClusterAdmin, RestartAnswer
from tests.support.loop import run


class Brokers:
    """Brokers without replicas; a topic that is made just before a cordon holds is given to broker 3."""

    def __init__(self) -> None:
        self.cordoned: set[int] = set()
        self.replicas = {2: 0, 3: 0}
        self.drained: list[int] = []

    @asynccontextmanager
    async def connect_client(self, _: str) -> AsyncIterator[Any]:
        yield self

    async def describe_cluster(self, *, include_fenced: bool) -> Any:
        assert include_fenced
        return SimpleNamespace(brokers=dict.fromkeys(self.replicas), fenced={})

    async def drain_progress(self, broker: int) -> DrainProgress:
        replicas, is_cordoned = self.replicas[broker], broker in self.cordoned
        return DrainProgress(broker, is_cordoned, replicas, leaders=0, moving=0, bytes_left=0)

    async def cordon(self, broker: int) -> None:
        self.cordoned.add(broker)
        if broker == 3:
            self.replicas[3] = 1

    async def drain(self, broker: int, *, bytes_per_second: int | None) -> None:
        self.drained.append(broker)


def test_a_broker_counts_as_empty_only_after_it_is_cordoned(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers()
    for name in ("BrokerAdmin", "LogAdmin"):
        monkeypatch.setattr(cluster_admin, name, lambda client: client)
    admin = HttpClusterAdmin(cast(Any, brokers))

    def left() -> int:
        return run(admin.drain_brokers("b:9092", (2, 3), bytes_per_second=None))

    assert left() > 0
    assert brokers.cordoned == {2, 3}
    assert left() == 1 and brokers.drained == [3]
    brokers.replicas[3] = 0
    assert left() == 0


def test_all_brokers_of_a_pod_are_emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers()
    brokers.replicas = {2: 4, 10_002: 1, 20_002: 1, 12: 1, 10_012: 1}
    brokers.cordoned = {2, 20_002}
    for name in ("BrokerAdmin", "LogAdmin"):
        monkeypatch.setattr(cluster_admin, name, lambda client: client)
    admin = HttpClusterAdmin(cast(Any, brokers))
    assert run(admin.drain_brokers("b:9092", (2,), bytes_per_second=None)) == 6
    assert brokers.cordoned == {2, 10_002, 20_002}
    assert brokers.drained == [2, 10_002, 20_002]


def test_brokers_that_are_gone_are_forgotten_and_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broker 4 has replicas, and broker 5 is alive again."""
    refusals = {4: InvalidRequest("broker 4 still has 1 replica"), 5: InvalidRequest("broker 5 is alive")}
    asked: list[int] = []

    class Known(Brokers):
        async def describe_cluster(self, *, include_fenced: bool) -> Any:
            return SimpleNamespace(fenced=dict.fromkeys((2, 3, 4, 5, 10_002, 10_003)))

        async def remove(self, broker: int) -> None:
            asked.append(broker)
            if broker in refusals:
                raise refusals[broker]

    for name in ("BrokerAdmin", "LogAdmin"):
        monkeypatch.setattr(cluster_admin, name, lambda client: client)
    admin = HttpClusterAdmin(cast(Any, Known()))
    assert run(admin.forget_brokers("b:9092", keep=(0, 1, 2))) == (3, 10_003)
    assert asked == [3, 4, 5, 10_003]


def test_what_a_broker_with_a_full_disk_says_of_its_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = {
        "can_restart": False,
        "too_few": 0,
        "only_here": 0,
        "never_safe": 0,
        "last_copies": 0,
        "partitions": [],
        "never": [],
        "last": [],
        "refused_writes": "the log directory /data is full",
    }

    async def get(*_: object) -> str:
        return json.dumps(sent)

    admin = HttpClusterAdmin(cast(Any, None))
    monkeypatch.setattr(admin, "_get", get)
    answer = run(admin.restart_answer("b", 9644, Key("Cluster", "default", "b")))
    assert answer == RestartAnswer(known=True, refused_writes="the log directory /data is full")


@pytest.mark.parametrize(
    ("sent", "last_copies", "named"),
    [
        ({"only_here": 1, "last_copies": 2, "last": ["a-0", "b-1"]}, 2, ("a-0", "b-1")),
        # An earlier version does not say it: what may be the last copy counts as one.
        ({"only_here": 1, "too_few": 1, "partitions": ["b-1"]}, 2, ()),
    ],
)
def test_what_only_one_broker_has(
    monkeypatch: pytest.MonkeyPatch, sent: dict[str, object], last_copies: int, named: tuple[str, ...]
) -> None:
    async def get(*_: object) -> str:
        return json.dumps({"can_restart": True, "too_few": 0, "never_safe": 0, "partitions": [], **sent})

    admin = HttpClusterAdmin(cast(Any, None))
    monkeypatch.setattr(admin, "_get", get)
    answer = run(admin.restart_answer("b", 9644, Key("Cluster", "default", "b")))
    assert (answer.last_copies, answer.last_named) == (last_copies, named)


def test_brokers_with_a_full_directory_are_named_and_silent_ones_omitted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def directory(broker: int, path: str, usable: int) -> LogDirectoryDescription:
        return LogDirectoryDescription(broker, path, 1 << 40, usable, {}, None)

    async def directories(*_: object, **__: object) -> Directories:
        return {
            0: [directory(0, "/a", 1 << 39), directory(0, "/b", 0)],
            1: [directory(1, "/a", 1 << 39)],
            2: ConnectionFailed("nobody listens"),
        }

    monkeypatch.setattr(cluster_admin, "directories", directories)
    admin = HttpClusterAdmin(cast(Any, Brokers()))
    assert run(admin.find_full_directories("b:9092", (0, 1, 2))) == {0: "/b"}
