"""Kafka's first consumers in pods: a group of two that shares partitions through the ZooKeeper of a Cluster.

The Cluster runs before it admits them, so its ZooKeeper is protected while it serves.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e import boot
from e2e.conftest import READY_SECONDS_MAX, pods_by_name
from e2e.install import upgrade_operator
from e2e.kube import Kube, Resource, until

NAMESPACE, CLUSTER, TOPIC, GROUP = "first", "first", "orders", "billing"
PARTITIONS, RECORDS = 4, 200
SECONDS_MAX = 120.0
SMALL = {"requests": {"cpu": "20m", "memory": "64Mi"}}
SERVERS = {"replicas": 1, "storage": {"size": "1Gi"}, "resources": SMALL}
# As OpenShift numbers the users of a namespace: no image knows them.
RUN_AS = {"user": 1_000_650_000, "group": 0, "fsGroup": 1_000_650_000}
SPEC: Resource = {
    "runAs": RUN_AS,
    "zookeeper": {"servers": SERVERS},
    "controllers": {"replicas": 1, "resources": SMALL},
    "brokers": {"replicas": 1, "storage": {"size": "1Gi"}, "resources": SMALL},
}
PEER = {"podSelector": {"matchLabels": {"app": GROUP}}}
# Each line is a partition and a message, or `owned` and partitions.
PROGRAM = """\
import os
from odradek.classic import ConsumerConnector, ConsumerTimeoutException

properties = {"zk.connect": os.environ["CONNECT"], "groupid": "billing", "autooffset.reset": "smallest",
              "zk.sessiontimeout.ms": 6000, "autocommit.interval.ms": 200, "consumer.timeout.ms": 200}
shown = None
with ConsumerConnector(properties) as connector:
    (stream,) = connector.create_message_streams({"orders": 1})["orders"]
    while True:
        owned = sorted(one.partition for one in connector.owned_partitions)
        if owned != shown:
            shown = owned
            print("owned", *owned, flush=True)
        try:
            message = next(stream)
        except ConsumerTimeoutException:
            continue
        print("read", message.partition, message.message.decode(), flush=True)
"""
STRANGER = """\
import os
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

client = KazooClient(hosts=os.environ["CONNECT"])
client.start(timeout=30)
for path in ("/controller", "/kafka-acl/Topic", "/config/users/eve"):
    try:
        client.create(path, b"")
        print("made", path)
    except NoAuthError:
        print("refused", path)
"""


@pytest.fixture(scope="module")
def first(kube: Kube) -> Iterator[Kube]:
    """A namespace with a Cluster of its own, Ready, and a topic."""
    namespace = Kube(NAMESPACE)
    cluster = {"apiVersion": "odradek.io/v1", "kind": "Cluster", "metadata": {"name": CLUSTER}, "spec": SPEC}
    topic = {"cluster": CLUSTER, "partitions": PARTITIONS, "replicas": 1}
    namespace.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        cluster,
        {"apiVersion": "odradek.io/v1", "kind": "Topic", "metadata": {"name": TOPIC}, "spec": topic},
    )
    upgrade_operator("--set", f"watch.namespaces={{{kube.namespace},{NAMESPACE}}}")
    try:
        namespace.ready("cluster", CLUSTER, READY_SECONDS_MAX)
        namespace.ready("topic", TOPIC, READY_SECONDS_MAX)
        yield namespace
    finally:
        upgrade_operator("--set", f"watch.namespaces={{{kube.namespace}}}")
        kube.delete("namespace", NAMESPACE, wait=False)


def member(name: str) -> Resource:
    container = {
        "name": "member",
        "image": boot.image("broker"),
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-c", PROGRAM],
        "env": [
            {
                "name": "CONNECT",
                "valueFrom": {"configMapKeyRef": {"name": f"{CLUSTER}-binding", "key": "zookeeper.connect"}},
            }
        ],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    security = {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": GROUP}},
        "spec": {"containers": [container], "securityContext": security, "terminationGracePeriodSeconds": 0},
    }


def lines(kube: Kube, pod: str, word: str) -> list[list[str]]:
    found = [line.split() for line in kube.run("logs", pod).splitlines()]
    return [words[1:] for words in found if words and words[0] == word]


def owned(kube: Kube, pod: str) -> list[str]:
    said = lines(kube, pod, "owned")
    return said[-1] if said else []


def produce(kube: Kube, begin: int, end: int) -> None:
    text = "".join(f"{number}\t{number}\n" for number in range(begin, end))
    command = [
        "odradek",
        "produce",
        TOPIC,
        "--bootstrap",
        f"{CLUSTER}-bootstrap:9092",
        "--key-separator",
        "\t",
    ]
    kube.inside(f"{CLUSTER}-broker-0", *command, stdin=text)


def test_clients_are_admitted_to_a_cluster_that_runs(first: Kube) -> None:
    before = {component: pods_by_name(first, component) for component in ("broker", "zookeeper")}
    first.patch("cluster", CLUSTER, {"spec": {"zookeeper": {"servers": {"clients": [PEER]}}}})
    until(
        lambda: first.get("cluster", CLUSTER),
        lambda one: one["status"].get("zookeeperConnect") is not None,
        seconds_max=READY_SECONDS_MAX,
        what="the Cluster says where clients of ZooKeeper connect",
    )
    first.ready("cluster", CLUSTER, READY_SECONDS_MAX)
    for component, pods in before.items():
        assert not set(pods.values()) & set(pods_by_name(first, component).values()), (
            f"{component} logs in now"
        )
    policy = first.get("networkpolicy", f"{CLUSTER}-zookeeper") or {}
    assert PEER in [peer for rule in policy["spec"]["ingress"] for peer in rule["from"]]


def test_a_group_of_two_in_pods_shares_partitions_and_takes_over(first: Kube) -> None:
    first.apply(member("one"), member("two"))
    first.run("wait", "--for=condition=Ready", "pod/one", "pod/two", "--timeout=120s")
    shares = until(
        lambda: (owned(first, "one"), owned(first, "two")),
        lambda both: len(both[0]) == len(both[1]) == PARTITIONS // 2,
        seconds_max=SECONDS_MAX,
        what="each member owns half of the partitions",
    )
    assert sorted(shares[0] + shares[1]) == [str(number) for number in range(PARTITIONS)]
    produce(first, 0, RECORDS)
    until(
        lambda: [line for pod in ("one", "two") for line in lines(first, pod, "read")],
        lambda read: sorted(int(value) for _, value in read) == list(range(RECORDS)),
        seconds_max=SECONDS_MAX,
        what="each record is read by one of the two",
    )
    assert {partition for partition, _ in lines(first, "one", "read")} == set(shares[0])
    command = ["odradek", "groups", "describe", GROUP, "--bootstrap", f"{CLUSTER}-bootstrap:9092"]
    assert "2 members" in first.inside(f"{CLUSTER}-broker-0", *command)

    first.kill_pod("one")
    until(
        lambda: owned(first, "two"),
        lambda now: len(now) == PARTITIONS,
        seconds_max=SECONDS_MAX,
        what="the other member takes over all partitions",
    )
    produce(first, RECORDS, 2 * RECORDS)
    until(
        lambda: {int(value) for _, value in lines(first, "two", "read")},
        lambda read: read >= set(range(RECORDS, 2 * RECORDS)),
        seconds_max=SECONDS_MAX,
        what="it reads all that comes",
    )


def test_a_client_of_zookeeper_cannot_change_what_is_the_clusters(first: Kube) -> None:
    said = first.inside("two", "python", "-c", STRANGER).splitlines()
    assert [line.split()[0] for line in said] == ["refused"] * 3, said
