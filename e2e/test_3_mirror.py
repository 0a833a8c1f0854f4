"""A Mirror between two Clusters: each record arrives once while a worker is lost, and the status shows the lag."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.conftest import READY_SECONDS_MAX
from e2e.install import BOOTSTRAP
from e2e.kube import Kube, Resource, condition, until
from e2e.workload import CLIENT_POD, load_on, produce

SOURCE_BOOTSTRAP = "shop-bootstrap:9092"
WORKERS = "odradek.io/mirror=copy"
COPIED_SECONDS_MAX = 120.0
SMALL = {"requests": {"cpu": "20m", "memory": "64Mi"}}


def of(kind: str, called: str, **spec: Any) -> Resource:
    return {"apiVersion": "odradek.io/v1", "kind": kind, "metadata": {"name": called}, "spec": spec}


SHOP = of(
    "Cluster",
    "shop",
    zookeeper={"servers": {"replicas": 1, "storage": {"size": "1Gi"}, "resources": SMALL}},
    controllers={"replicas": 1, "resources": SMALL},
    brokers={"replicas": 1, "storage": {"size": "1Gi"}, "resources": SMALL},
    deletionPolicy="Delete",
)
MIRROR = of(
    "Mirror",
    "copy",
    target={"cluster": "demo"},
    sources=[{"alias": "shop", "cluster": "shop", "topics": ["orders"]}],
    intervalSeconds={"topics": 2},
    replicas=2,
    resources=SMALL,
)


@pytest.fixture(scope="module")
def shop(kube: Kube) -> Iterator[Kube]:
    """The namespace with a second Cluster of one broker, which has a topic `orders`."""
    kube.apply(SHOP, of("Topic", "shop-orders", cluster="shop", name="orders", partitions=3, replicas=1))
    try:
        kube.ready("cluster", "shop", READY_SECONDS_MAX)
        kube.ready("topic", "shop-orders", READY_SECONDS_MAX)
        yield kube
    finally:
        kube.delete("mirror", "copy")
        kube.delete("topic", "shop-orders")
        kube.delete("cluster.odradek.io", "shop", wait=False)


def records(kube: Kube, bootstrap: str, topic: str) -> dict[int, list[str]]:
    """The values of a topic by partition, in order, as a client reads them that waits for commits."""
    command = (
        "kcat",
        "-m",
        "60",
        "-C",
        "-e",
        "-q",
        "-b",
        bootstrap,
        "-t",
        topic,
        "-o",
        "beginning",
        "-f",
        "%p %s\\n",
    )
    printed = kube.inside(CLIENT_POD, *command, "-X", "isolation.level=read_committed")
    found: dict[int, list[str]] = {}
    for line in printed.splitlines():
        partition, _, value = line.partition(" ")
        found.setdefault(int(partition), []).append(value)
    return found


def copied(kube: Kube) -> int:
    """The number of records at the target."""
    return sum(map(len, records(kube, BOOTSTRAP, "shop.orders").values()))


def status(kube: Kube) -> dict[str, Any]:
    found = kube.get("mirror", "copy")
    assert found is not None
    return dict(found.get("status", {}))


def is_whole(status: dict[str, Any]) -> bool:
    """Whether all partitions of the source's topic are mirrored, without lag."""
    topics = {(one["source"], one["topic"]): one for one in status.get("furthest", ())}
    shown = topics.get(("shop", "orders"), {})
    running = [one["state"] for one in status.get("sources", ())] == ["running"]
    return running and shown.get("lag") == 0 and shown.get("partitions") == 3


def settled(kube: Kube) -> None:
    """Wait until the target has all that the source has; then both are the same, in order and without doubles."""
    wanted = records(kube, SOURCE_BOOTSTRAP, "orders")
    count = sum(map(len, wanted.values()))
    until(
        lambda: copied(kube), lambda seen: seen >= count, seconds_max=COPIED_SECONDS_MAX, what="all is copied"
    )
    assert records(kube, BOOTSTRAP, "shop.orders") == wanted


@pytest.mark.timeout(900)
def test_a_mirror_copies_each_record_once_while_a_worker_is_lost(shop: Kube) -> None:
    with load_on(shop, SOURCE_BOOTSTRAP, "orders") as load:
        shop.apply(MIRROR)
        mirror = shop.ready("mirror", "copy", READY_SECONDS_MAX)
        assert condition(mirror, "Mirroring")["status"] == "True"
        until(lambda: copied(shop), lambda seen: seen > 500, seconds_max=COPIED_SECONDS_MAX, what="it copies")
        before = shop.pods(WORKERS)
        assert len(before) == 2
        shop.kill_pod(before[0]["metadata"]["name"])
        at_kill = copied(shop)
        until(
            lambda: copied(shop),
            lambda seen: seen > at_kill + 500,
            seconds_max=COPIED_SECONDS_MAX,
            what="the other worker continues",
        )
        until(
            lambda: status(shop),
            lambda seen: seen.get("ready") == 2,
            seconds_max=120,
            what="two workers again",
        )
    assert not load.failed
    settled(shop)
    assert sum(map(len, records(shop, BOOTSTRAP, "shop.orders").values())) == len(load.acknowledged)
    # Heartbeats are mirrored too, and a new one comes each second.
    # Workers are asked some seconds apart, and a member that joins again has no partitions for a moment.
    until(
        lambda: status(shop),
        is_whole,
        seconds_max=60,
        what="all partitions without lag in the status, and the source runs",
    )


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_a_paused_mirror_goes_on_where_it_stopped(shop: Kube) -> None:
    shop.apply(MIRROR)
    shop.ready("mirror", "copy", READY_SECONDS_MAX)
    shop.patch("mirror", "copy", {"spec": {"paused": True}})
    until(lambda: shop.items("pods", WORKERS), lambda pods: not pods, seconds_max=90, what="no workers")
    produce(shop, SOURCE_BOOTSTRAP, "orders", [f"paused-{number}" for number in range(100)])
    shop.patch("mirror", "copy", {"spec": {"paused": False}})
    shop.ready("mirror", "copy", READY_SECONDS_MAX)
    settled(shop)


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_without_its_source_it_is_refused_and_deleted_it_is_gone(shop: Kube) -> None:
    lost = of("Mirror", "lost", **{**MIRROR["spec"], "sources": [{"alias": "gone", "cluster": "gone"}]})
    shop.apply(lost)
    found = until(
        lambda: shop.get("mirror", "lost"),
        lambda seen: condition(seen, "Ready").get("reason") == "ClusterNotFound",
        seconds_max=60,
        what="the Mirror says what it lacks",
    )
    assert condition(found, "Ready")["status"] == "False"
    shop.delete("mirror", "lost", "copy")
    for kind in ("deployment", "configmap", "pods"):
        until(
            lambda: shop.items(kind, "odradek.io/mirror"),  # noqa: B023
            lambda left: not left,
            seconds_max=90,
            what=f"each {kind} goes with its Mirror",
        )
    assert copied(shop), "the topic stays"
