"""The ZooKeeper that a Cluster runs: how many servers it begins with, and how it grows and shrinks while it runs."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.foundation.errors import SettingError
from odradek.storage.directories.log_manager import LogManager
from odradek_operator.desired.zookeeper_files import NO_DATA, EnsembleMembership
from odradek_operator.gateways.kubernetes import CONFIG_MAPS, VOLUME_CLAIMS
from odradek_operator.reconcilers.cluster.facts import Objects, ServerPod, broker_pods
from odradek_operator.reconcilers.cluster.zookeeper.ensemble import (
    Resize,
    data_problem,
    membership,
    resize,
    with_size,
)
from odradek_operator.resources.cluster import ClusterSpec
from odradek_operator.resources.cluster_status import ClusterStatus, EnsembleStatus, Pods
from odradek_operator.resources.structure import parse
from tests.operator.support.cluster_world import ClusterWorld
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
def test_an_ensemble_that_has_not_begun_keeps_its_number(there: str) -> None:
    before = ClusterStatus(zookeeper=Pods(wanted=1)) if there == "status" else ClusterStatus()
    objects: dict[tuple[str, str], Any] = {}
    if there == "StatefulSet":
        objects["StatefulSet", "demo-zookeeper"] = {"spec": {"replicas": 1}}
    if there == "volumes":
        objects = {("PersistentVolumeClaim", f"data-demo-{name}-0"): {} for name in ("zookeeper", "broker")}
    assert size(spec(brokers=3), before, objects) == 1
    assert size(spec(brokers=3, replicas=3), before, objects) == 1, "its first servers know each other by it"


def formed(*voters: int, pods: int = 0) -> ClusterStatus:
    return ClusterStatus(
        zookeeper=Pods(wanted=pods or len(voters)),
        ensemble=EnsembleStatus(voters=voters, version="100000000"),
        cluster_id="c",
    )


def test_every_voter_has_a_pod_that_is_made_before_it_votes() -> None:
    assert size(spec(replicas=3), formed(1)) == 3
    assert size(spec(replicas=1), formed(1, 2, 3)) == 3
    assert size(spec(replicas=1), formed(1, pods=3)) == 1
    assert [size(spec(brokers=brokers), formed(1, 2, 3)) for brokers in (1, 9)] == [3, 3]
    assert size(spec(), formed(1, pods=3)) == 1, "a number that was taken back"


def test_only_servers_of_a_cluster_that_never_was_may_begin_without_data() -> None:
    assert membership(ClusterStatus(), 3) == EnsembleMembership(voters=(1, 2, 3), founders=(1, 2, 3))
    assert membership(ClusterStatus(cluster_id="c"), 3).founders == ()
    assert membership(formed(1), 3) == EnsembleMembership(voters=(1,), version="100000000")


def test_servers_join_together_and_leave_together() -> None:
    assert resize((1,), 3, None) == Resize(joining=(2, 3))
    assert resize((1, 2, 3), 1, None) == Resize(leaving=(2, 3))
    assert resize((1, 2), 3, None) == Resize(joining=(3,))
    assert not resize((1, 2, 3), 3, "no controller is active").under_way
    assert not resize((), 3, None).under_way and not resize((1,), None, None).under_way
    assert "2, 3 join; waiting: no controller" in str(resize((1,), 3, "no controller is active"))


@pytest.mark.parametrize("loses_answers", [False, True])
def test_an_ensemble_grows_and_shrinks_while_it_runs(world: ClusterWorld, loses_answers: bool) -> None:
    world.brokers.loses_answers = loses_answers
    first = world.pods("zookeeper")
    world.change(spec__zookeeper__servers__replicas=3)
    for number in (1, 2):
        world.brokers.looking.add(f"events-zookeeper-{number}")
    world.look(4)
    assert len(world.pods("zookeeper")) == 3 and voters(world) == [1]
    waiting = world.condition("Zookeeper")
    assert waiting["reason"] == "Waiting" and "2, 3 join" in waiting["message"]
    assert members(world) == ["server.1"], "a server that joins learns of the voters"
    world.brokers.looking.clear()
    world.settle()
    assert voters(world) == [1, 2, 3] and world.status["ensemble"]["voters"] == [1, 2, 3]
    assert members(world) == ["server.1", "server.2", "server.3"] and world.condition("Zookeeper") == {}
    three = world.pods("zookeeper")
    assert three["events-zookeeper-0"] == first["events-zookeeper-0"], "nothing restarts for it"
    world.change(spec__zookeeper__servers__replicas=1)
    while voters(world) != [1]:
        assert world.pods("zookeeper") == three, "a pod goes when it votes no more"
        world.look()
    world.settle()
    assert world.pods("zookeeper") == first
    claims = [name for name in ("0", "1", "2") if world.get(VOLUME_CLAIMS, f"data-events-zookeeper-{name}")]
    assert claims == ["0"], "a server that joins later does not find a former server's data"


def test_an_ensemble_stays_without_a_controller_or_while_pods_roll(world: ClusterWorld) -> None:
    world.brokers.has_controller = False
    world.change(spec__zookeeper__servers__replicas=3)
    world.look(5)
    assert voters(world) == [1]
    assert "no controller is active" in world.condition("Zookeeper")["message"]
    world.brokers.has_controller = True
    world.settle()
    assert voters(world) == [1, 2, 3]


@pytest.mark.thorough
@pytest.mark.parametrize("number", [1, 3, 5, 7])
def test_a_resize_that_is_cut_off_between_any_two_writes_is_carried_on(number: int) -> None:
    for writes in range(9):
        world = ClusterWorld()
        world.settle()
        world.change(spec__zookeeper__servers__replicas=number)
        world.settle_through_kills(writes)
        assert len(world.brokers.voters) == len(world.pods("zookeeper")) == number


def voters(world: ClusterWorld) -> list[int]:
    return list(world.brokers.voters)


def test_most_servers_without_data_are_lost_data_and_fewer_are_not() -> None:
    def server(number: int, words: str) -> ServerPod:
        name = f"events-zookeeper-{number}"
        return ServerPod(
            name=name,
            uid=name,
            ready=False,
            deleting=False,
            current=True,
            roll=False,
            address=None,
            termination_message=words,
        )

    def problem_of(*words: str) -> str | None:
        servers = tuple(server(number, one) for number, one in enumerate(words))
        return data_problem((), "c", None, servers, tuple(range(1, len(words) + 1)))

    lost = f"server 1 joins\n{NO_DATA}\n"
    message = problem_of(lost, lost, "") or ""
    assert "2 of 3 servers have none" in message and "docs/zookeeper-backup.md" in message
    assert problem_of(lost, "", "") is None and problem_of("", "", "") is None
    assert problem_of(lost) is not None


def members(world: ClusterWorld) -> list[str]:
    made = world.body(CONFIG_MAPS, "events-zookeeper")
    return [line.partition("=")[0] for line in made["data"]["members"].splitlines()]


def pod(message: str) -> Any:
    return {
        "metadata": {"name": "demo-broker-2", "labels": {}},
        "status": {"containerStatuses": [{"lastState": {"terminated": {"message": message}}}]},
    }


def test_lost_data_is_known_by_what_a_broker_says_at_its_end() -> None:
    """The words are a broker's own. They do not advise to leave its data."""
    disk = SimulatedDisk()
    first = LogManager(["a"], disk=disk, clock=StillClock(), broker_id=2)
    first.directories.open()
    first.directories.set_cluster_id("old")
    first.close()
    again = LogManager(["a"], disk=disk, clock=StillClock(), broker_id=2)
    again.directories.open()
    with pytest.raises(SettingError) as refused:
        again.directories.set_cluster_id("new")
    again.close()
    words = str(refused.value)
    assert "another directory" not in words and "put it back from a backup" in words
    problem = data_problem(broker_pods([pod(words)], None, {}), "old", None)
    assert problem is not None and "keep these" in problem and problem.startswith("ZooKeeper's data is lost")
    assert data_problem(broker_pods([pod("out of memory")], None, {}), "old", "old") is None
    assert data_problem(broker_pods([pod(words)], None, {}), None, "new") is None
    assert data_problem((), "old", "new") is not None
