"""The ZooKeeper that a Cluster runs: three servers unless one broker is asked for, and a number that stays."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.foundation.errors import SettingError
from odradek.log.directory import LogDirectories
from odradek_operator.gateways.kubernetes import STATEFUL_SETS
from odradek_operator.reconcilers.cluster.ensemble import data_problem, size_problem, with_size
from odradek_operator.reconcilers.cluster.facts import Objects, broker_pods
from odradek_operator.resources.cluster import ClusterSpec, ClusterStatus, Pods
from odradek_operator.resources.structure import parse
from tests.operator.support.world import World
from tests.support.disk import SimulatedDisk
from tests.support.logs import StillClock


def spec(*, brokers: int = 3, **servers: Any) -> ClusterSpec:
    return parse(ClusterSpec, {"zookeeper": {"servers": servers}, "brokers": {"replicas": brokers}})


def size(
    wanted: ClusterSpec, before: ClusterStatus | None = None, objects: Objects | None = None
) -> int | None:
    sized = with_size(wanted, "demo", before or ClusterStatus(), objects or {})
    assert sized.zookeeper.servers is not None
    return sized.zookeeper.servers.replicas


def test_three_by_default_and_one_where_one_broker_is_asked_for() -> None:
    assert [size(spec(brokers=brokers)) for brokers in (1, 2, 3, 9)] == [1, 3, 3, 3]
    assert [size(spec(brokers=brokers, replicas=5)) for brokers in (1, 3)] == [5, 5]


@pytest.mark.parametrize("there", ["status", "StatefulSet", "volumes"])
def test_an_ensemble_that_is_there_keeps_its_number(there: str) -> None:
    """More brokers, or another number in the spec, would make a second ensemble."""
    before = ClusterStatus(zookeeper=Pods(wanted=1)) if there == "status" else ClusterStatus()
    objects: dict[tuple[str, str], Any] = {}
    if there == "StatefulSet":
        objects["StatefulSet", "demo-zookeeper"] = {"spec": {"replicas": 1}}
    if there == "volumes":
        objects = {("PersistentVolumeClaim", f"data-demo-{name}-0"): {} for name in ("zookeeper", "broker")}
    assert size(spec(brokers=3), before, objects) == 1
    wanted = spec(brokers=3, replicas=3)
    sized = with_size(wanted, "demo", before, objects)
    told = size_problem(wanted, sized)
    assert told is not None and "set it to 1, or leave it out" in told
    assert size_problem(spec(brokers=3), sized) is None


def test_a_cluster_says_that_its_number_of_servers_stays(world: World) -> None:
    world.change(spec__zookeeper__servers__replicas=3)
    world.settle()
    assert world.condition("Zookeeper")["reason"] == "SizeStays"
    made = world.get(STATEFUL_SETS, "events-zookeeper")
    assert made is not None and made["spec"]["replicas"] == 1


def pod(message: str) -> Any:
    return {
        "metadata": {"name": "demo-broker-2", "labels": {}},
        "status": {"containerStatuses": [{"lastState": {"terminated": {"message": message}}}]},
    }


def test_lost_data_is_known_by_what_a_broker_says_at_its_end() -> None:
    """The words are a broker's own. They do not advise to leave its data."""
    disk = SimulatedDisk()
    first = LogDirectories(["a"], disk=disk, clock=StillClock(), broker_id=2)
    first.open()
    first.set_cluster_id("old")
    first.close()
    again = LogDirectories(["a"], disk=disk, clock=StillClock(), broker_id=2)
    again.open()
    with pytest.raises(SettingError) as refused:
        again.set_cluster_id("new")
    again.close()
    words = str(refused.value)
    assert "another directory" not in words and "put it back from a backup" in words
    told = data_problem(broker_pods([pod(words)], None), "old", None)
    assert told is not None and "keep these" in told and told.startswith("ZooKeeper's data is lost")
    assert data_problem(broker_pods([pod("out of memory")], None), "old", "old") is None
    assert data_problem(broker_pods([pod(words)], None), None, "new") is None
    assert data_problem((), "old", "new") is not None
