"""Pods and processes that go away: one, some, all, and those that only stop."""

from __future__ import annotations

from collections.abc import Iterable

from e2e import boot
from e2e.attack.attacks import ALL_AT_ONCE_SECONDS_MAX, KILLED_SECONDS_MAX, STOPPED_SECONDS_MAX, attack
from e2e.attack.field import Field
from e2e.conftest import pods_by_name
from e2e.test_4_faults import replaced, zookeeper_leader

STOPPED_SECONDS = 20.0


def containers(field: Field) -> dict[str, str]:
    """The id of each container of the Cluster's pods, by the pod."""
    return {
        pod["metadata"]["name"]: one["containerID"]
        for pod in field.kube.pods("odradek.io/cluster=demo")
        for one in pod.get("status", {}).get("containerStatuses", ())
        if "containerID" in one
    }


def any_broker(field: Field) -> str:
    return f"demo-broker-{field.chance.randrange(3)}"


def all_replaced(field: Field, before: dict[str, str], seconds_max: float = 300.0) -> None:
    """Each of these pods was made again."""

    def are_new() -> bool:
        now = field.pods()
        return all(now.get(name, uid) != uid for name, uid in before.items())

    field.until(are_new, f"{', '.join(before)} are made again", seconds_max)


def crash(field: Field, pods: Iterable[str]) -> None:
    """Kill containers without a signal, and wait until others run in their place."""
    before = {pod: identity for pod, identity in containers(field).items() if pod in set(pods)}
    for identity in before.values():
        boot.crash(identity)

    def are_new() -> bool:
        now = containers(field)
        return all(now.get(pod, identity) != identity for pod, identity in before.items())

    field.until(are_new, "all run again")


@attack("a broker's process is killed: the others serve, and it comes back", KILLED_SECONDS_MAX)
def broker_killed(field: Field) -> None:
    crash(field, [any_broker(field)])


@attack("a broker's pod is lost without a signal")
def broker_lost(field: Field) -> None:
    before = pods_by_name(field.kube, "broker")
    field.kube.kill_pod(any_broker(field))
    replaced(field.kube, "broker", before)


@attack("two of three brokers are lost at once", ALL_AT_ONCE_SECONDS_MAX)
def two_brokers_lost(field: Field) -> None:
    before = field.pods("broker")
    lost = field.chance.sample(sorted(before), 2)
    field.kube.run("delete", "pod", *lost, "--grace-period=0", "--force")
    all_replaced(field, {name: before[name] for name in lost})


@attack("all controllers are lost at once")
def controllers_lost(field: Field) -> None:
    before = field.pods("controller")
    field.kube.run("delete", "pod", *before, "--grace-period=0", "--force")
    field.until(lambda: len(field.pods("controller").keys() - before.keys()) == 2, "there are two others")


@attack("the pod of ZooKeeper's leader is deleted")
def zookeeper_leader_deleted(field: Field) -> None:
    before = field.pods("zookeeper")
    leader = zookeeper_leader(field.kube)
    field.kube.delete("pod", leader, wait=False)
    all_replaced(field, {leader: before[leader]})


@attack("ZooKeeper's leader stops and keeps its connections: the others elect, and it joins again")
def zookeeper_stopped(field: Field) -> None:
    boot.stop_for(containers(field)[zookeeper_leader(field.kube)], STOPPED_SECONDS)


@attack("a broker stops and keeps its connections: its partitions get other leaders", STOPPED_SECONDS_MAX)
def broker_stopped(field: Field) -> None:
    boot.stop_for(containers(field)[any_broker(field)], STOPPED_SECONDS)


@attack("all containers are killed at once, and serve again", ALL_AT_ONCE_SECONDS_MAX)
def everything_killed_at_once(field: Field) -> None:
    assert len(field.pods()) == 8
    crash(field, field.pods())
