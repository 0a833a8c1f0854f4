"""A second Cluster, beside the first and in a namespace of its own: reached from outside, spread over zones, paused.

Its clients run here, not in a pod: they see the brokers at a node's address, each at a port of its own.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.admin import AdminClient

from e2e import boot
from e2e.conftest import READY_SECONDS_MAX
from e2e.install import upgrade_operator
from e2e.kube import Kube, NeverTrueError, Resource, condition, until

NAMESPACE = "edge"
ZONE_LABEL = "e2e.odradek.io/zone"
RECORDS = 200
CLIENT_SECONDS_MAX = 60.0
NODE_PROXY_SECONDS_MAX = 90.0
SMALL = {"requests": {"cpu": "20m", "memory": "64Mi"}}
CLUSTER: Resource = {
    "apiVersion": "odradek.io/v1",
    "kind": "Cluster",
    "metadata": {"name": "edge"},
    "spec": {
        "zookeeper": {"servers": {"replicas": 1, "storage": {"size": "1Gi"}, "resources": SMALL}},
        "controllers": {"replicas": 1, "resources": SMALL},
        "brokers": {
            "replicas": 2,
            "storage": {"size": "1Gi"},
            "resources": SMALL,
            "rackLabel": ZONE_LABEL,
            "config": {"default.replication.factor": 2},
        },
        "listeners": [{"name": "outside", "type": "NodePort", "port": 9094}],
    },
}


@pytest.fixture(scope="module")
def edge(kube: Kube) -> Iterator[Kube]:
    """The namespace with the second Cluster, Ready; every node is in a zone of its own."""
    nodes = [one["metadata"]["name"] for one in kube.items("nodes")]
    for node in nodes:
        kube.run("label", "node", node, f"{ZONE_LABEL}=zone-of-{node}", "--overwrite")
    namespace = Kube(NAMESPACE)
    namespace.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, CLUSTER)
    # The README's operator looks after the first Cluster's namespace alone.
    upgrade_operator("--set", f"watch.namespaces={{{kube.namespace},{NAMESPACE}}}")
    try:
        namespace.ready("cluster", "edge", READY_SECONDS_MAX)
        yield namespace
    finally:
        upgrade_operator("--set", f"watch.namespaces={{{kube.namespace}}}")
        kube.delete("namespace", NAMESPACE, wait=False)
        for node in nodes:
            kube.run("label", "node", node, f"{ZONE_LABEL}-")


def outside(edge: Kube) -> tuple[str, list[str]]:
    """Where clients outside begin, and the brokers' addresses by their number, as the Cluster's status has them."""
    (listener,) = (edge.get("cluster", "edge") or {})["status"]["listeners"]
    host, _, port = listener["bootstrap"].rpartition(":")
    try:
        until(
            lambda: refusal(host, int(port)),
            lambda reason: reason == "",
            seconds_max=NODE_PROXY_SECONDS_MAX,
            what=f"{listener['bootstrap']} takes connections",
        )
    except NeverTrueError as error:
        if boot.is_one_node():
            raise
        pytest.skip(f"nodes of this cluster cannot be reached from here: {error}")
    return listener["bootstrap"], listener["brokers"]


def refusal(host: str, port: int) -> str:
    """Why a connection cannot be made, empty where it can. A node forwards a port some time after pods are ready."""
    try:
        socket.create_connection((host, port), timeout=10).close()
    except OSError as error:
        return str(error)
    return ""


def test_clients_outside_reach_each_broker_at_its_own_address(edge: Kube) -> None:
    bootstrap, brokers = outside(edge)
    assert len(set(brokers)) == 2
    topic = {"cluster": "edge", "partitions": 4, "replicas": 2}
    edge.apply({"apiVersion": "odradek.io/v1", "kind": "Topic", "metadata": {"name": "far"}, "spec": topic})
    edge.ready("topic", "far", READY_SECONDS_MAX)
    client = AdminClient({"bootstrap.servers": bootstrap})
    reported = until(
        lambda: client.list_topics("far", timeout=CLIENT_SECONDS_MAX),
        lambda seen: len(seen.topics["far"].partitions) == 4,
        seconds_max=60,
        what="the broker that is asked knows the topic",
    )
    assert {one.id: f"{one.host}:{one.port}" for one in reported.brokers.values()} == dict(enumerate(brokers))
    leaders = {one.leader for one in reported.topics["far"].partitions.values()}
    assert leaders == {0, 1}, "each broker is written to"

    acknowledged: set[tuple[int, int, str]] = set()
    failed: list[str] = []

    def delivered(error: object, message: Message) -> None:
        if error is not None:
            failed.append(str(error))
        else:
            acknowledged.add(placed(message))

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(RECORDS):
        producer.produce("far", f"value-{number}".encode(), key=str(number).encode(), on_delivery=delivered)
    producer.flush(CLIENT_SECONDS_MAX)
    assert not failed and len(acknowledged) == RECORDS
    assert read(bootstrap, "far", RECORDS) == acknowledged


def read(bootstrap: str, topic: str, count: int) -> set[tuple[int, int, str]]:
    """(partition, offset, value) of the first records that a group from outside gets."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "outside", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    try:
        consumer.subscribe([topic])
        found = consumer.consume(count, timeout=CLIENT_SECONDS_MAX)
    finally:
        consumer.close()
    return {placed(message) for message in found if message.error() is None}


def placed(message: Message) -> tuple[int, int, str]:
    return message.partition() or 0, message.offset() or 0, (message.value() or b"").decode()


def test_brokers_know_the_zone_of_their_node(edge: Kube) -> None:
    bootstrap, _ = outside(edge)
    client = AdminClient({"bootstrap.servers": bootstrap})  # its answers end with it
    reported = client.describe_cluster().result(CLIENT_SECONDS_MAX)
    nodes = {
        int(pod["metadata"]["name"].rpartition("-")[2]): pod["spec"]["nodeName"]
        for pod in edge.pods("app.kubernetes.io/component=broker")
    }
    assert {one.id: one.rack for one in reported.nodes} == {
        broker: f"zone-of-{node}" for broker, node in nodes.items()
    }


def test_a_paused_cluster_is_left_alone_until_it_is_resumed(edge: Kube) -> None:
    paused = {"metadata": {"annotations": {"odradek.io/paused": "true"}}}
    edge.patch("cluster", "edge", {**paused, "spec": {"controllers": {"replicas": 2}}})
    seen = until(
        lambda: edge.get("cluster", "edge"),
        lambda one: (
            condition(one, "Paused").get("status") == "True"
            and one["status"]["observedGeneration"] == one["metadata"]["generation"]
        ),
        seconds_max=60,
        what="the operator has seen the change and that it is to wait",
    )
    assert controllers(edge) == 1, json.dumps(seen["status"])
    edge.run("annotate", "cluster", "edge", "odradek.io/paused-")
    until(lambda: controllers(edge), lambda now: now == 2, seconds_max=60, what="the change is carried out")
    cluster = edge.ready("cluster", "edge", 60)
    assert condition(cluster, "Paused") == {}


def controllers(edge: Kube) -> int:
    found: int = (edge.get("deployment", "edge-controller") or {})["spec"]["replicas"]
    return found
