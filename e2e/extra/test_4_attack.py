"""The attack: what goes wrong on a real cluster, one thing after the other, under load with acks=all.

Nothing acknowledged is lost, whatever happens. Each test prints the longest time without an acknowledgement;
docs/reliability.md has those figures. Faults that clients hardly notice are in `e2e/test_4_faults.py` with their limit.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.conftest import pods_by_name, settled
from e2e.extra.recovery import lose_and_restore
from e2e.install import BOOTSTRAP, OPERATOR_NAMESPACE, upgrade_cluster
from e2e.kube import Kube, Resource, condition, until
from e2e.test_4_drains import evict, throttled
from e2e.test_4_faults import active_controller, replaced
from e2e.workload import RECORDS_PER_SECOND, Load, listed, load_on

OPERATOR = Kube(OPERATOR_NAMESPACE)
AWAY_SECONDS = 65.0
AFTER_SECONDS = 5.0
DELIVERY = {
    "message.timeout.ms": "300000"
}  # a client that waits: what it is refused in the end is not the question


@contextmanager
def attacked(kube: Kube, topic: str, what: str) -> Iterator[Load]:
    """A load during the block and a little longer; nothing acknowledged is lost, and nothing failed for good."""
    with load_on(kube, BOOTSTRAP, topic, RECORDS_PER_SECOND, **DELIVERY) as load:
        time.sleep(1)
        yield load
        time.sleep(AFTER_SECONDS)
    load.check_kept(kube, BOOTSTRAP)
    print(f"\n| {what} | {len(load.acknowledged):,} | {load.gap_seconds} s |")


def in_sync(kube: Kube, topic: str) -> None:
    until(
        lambda: listed(kube, BOOTSTRAP, topic),
        lambda partitions: bool(partitions) and all(len(one["isrs"]) == 3 for one in partitions),
        seconds_max=120,
        what="every replica is in sync",
    )


@pytest.fixture(autouse=True)
def whole(kube: Kube, topic: str) -> Iterator[None]:
    """Each attack begins and ends with a whole cluster."""
    settled(kube)
    in_sync(kube, topic)
    yield
    settled(kube)
    in_sync(kube, topic)


def test_two_brokers_are_lost_at_once(kube: Kube, topic: str) -> None:
    before = pods_by_name(kube, "broker")
    with attacked(kube, topic, "two brokers force-deleted"):
        kube.run("delete", "pod", "demo-broker-0", "demo-broker-1", "--grace-period=0", "--force")
        until(
            lambda: pods_by_name(kube, "broker"),
            lambda now: (
                len(now) == len(before)
                and all(now[name] != before[name] for name in ("demo-broker-0", "demo-broker-1"))
            ),
            seconds_max=60,
            what="both are made again",
        )
        settled(kube)


def test_all_controllers_are_lost_at_once(kube: Kube, topic: str) -> None:
    controllers = pods_by_name(kube, "controller")
    with attacked(kube, topic, "all controllers force-deleted"):
        kube.run("delete", "pod", *controllers, "--grace-period=0", "--force")
        until(
            lambda: active_controller(kube),
            lambda name: name not in ("", *controllers),
            seconds_max=60,
            what="another controller is active",
        )


def test_zookeeper_is_away(kube: Kube, topic: str) -> None:
    with attacked(kube, topic, f"ZooKeeper away for {AWAY_SECONDS:.0f} s"):
        kube.run("annotate", "cluster", "demo", "odradek.io/paused=true")
        try:
            servers = len(pods_by_name(kube, "zookeeper"))
            kube.run("scale", "statefulset/demo-zookeeper", "--replicas=0")
            until(
                lambda: pods_by_name(kube, "zookeeper"),
                lambda now: not now,
                seconds_max=60,
                what="all are away",
            )
            time.sleep(AWAY_SECONDS)
            kube.run("scale", "statefulset/demo-zookeeper", f"--replicas={servers}")
        finally:
            kube.run("annotate", "cluster", "demo", "odradek.io/paused-")
        settled(kube)


def test_evictions_while_one_catches_up(kube: Kube, topic: str) -> None:
    before = pods_by_name(kube, "broker")
    with attacked(kube, topic, "evictions in turn, each with a throttled catch-up"):
        for broker in range(3):
            pod = f"demo-broker-{broker}"
            with throttled(kube, topic, broker):
                # The budget is open only while every replica is in sync.
                until(
                    lambda pod=pod: [evict(kube, pod)],  # type: ignore[misc]
                    lambda said: said == [None],
                    seconds_max=120,
                    what=f"{pod} may go",
                )
                time.sleep(5)
    after = pods_by_name(kube, "broker")
    assert all(after.get(name) != uid for name, uid in before.items())


def test_a_wrong_image_is_rolled_back(kube: Kube, topic: str) -> None:
    image = (kube.get("cluster", "demo") or {})["status"]["image"]

    def stuck(cluster: Resource | None) -> bool:
        rolling = condition(cluster or {}, "Rolling")
        return rolling.get("reason") == "Waiting" and f"{image}-that-is-not-there" in rolling["message"]

    with attacked(kube, topic, "an image that is not there, and back"):
        upgrade_cluster("--set-string", f"cluster.spec.image={image}-that-is-not-there")
        until(lambda: kube.get("cluster", "demo"), stuck, seconds_max=120, what="the Cluster says so")
        time.sleep(5)
        upgrade_cluster("--set-string", f"cluster.spec.image={image}")
        settled(kube)


def test_the_stateful_set_of_the_brokers_is_deleted(kube: Kube, topic: str) -> None:
    before = pods_by_name(kube, "broker")
    with attacked(kube, topic, "the brokers' StatefulSet deleted, and its pods with it"):
        kube.delete("statefulset", "demo-broker", wait=False)
        until(
            lambda: pods_by_name(kube, "broker"),
            lambda now: now.keys() == before.keys() and not set(now.values()) & set(before.values()),
            seconds_max=120,
            what="all are made again",
        )
        settled(kube)


def test_the_operator_is_killed_in_the_middle_of_a_roll(kube: Kube, topic: str) -> None:
    before = pods_by_name(kube, "broker")
    with attacked(kube, topic, "the operator killed in the middle of a roll"):
        kube.run("annotate", "cluster", "demo", f"odradek.io/restart=attack-{time.time():.0f}", "--overwrite")
        until(
            lambda: pods_by_name(kube, "broker"),
            lambda now: any(now.get(name) not in (None, uid) for name, uid in before.items()),
            seconds_max=240,
            what="the first broker was replaced",
        )
        OPERATOR.run(
            "delete",
            "pod",
            "--selector",
            "app.kubernetes.io/name=odradek-operator",
            "--grace-period=0",
            "--force",
        )
        until(
            lambda: pods_by_name(kube, "broker"),
            lambda now: now.keys() == before.keys() and not set(now.values()) & set(before.values()),
            seconds_max=240,
            what="every broker was replaced",
        )
        settled(kube, 240)


def test_zookeepers_volumes_are_lost_and_restored(kube: Kube, topic: str, tmp_path: Path) -> None:
    lose_and_restore(kube, topic, tmp_path)


def test_one_pod_of_each_part_is_deleted_in_turn(kube: Kube, topic: str) -> None:
    for component in ("broker", "controller", "zookeeper"):
        for pod in pods_by_name(kube, component):
            before = pods_by_name(kube, component)
            with attacked(kube, topic, f"pod {pod} deleted"):
                kube.delete("pod", pod, wait=False)
                replaced(kube, component, before)
            in_sync(kube, topic)
