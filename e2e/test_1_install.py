"""Two Helm installs give a replicated cluster that stock clients use from pods."""

from __future__ import annotations

import time

from e2e.conftest import settled, uids
from e2e.install import BOOTSTRAP, OPERATOR_NAMESPACE, helm_test
from e2e.kube import Kube, condition, until
from e2e.workload import CLIENT_POD, everything, produce

OURS = "odradek.io/cluster=demo"
BACK_SECONDS_MAX = 60.0


def test_the_installation_is_whole_and_restricted(kube: Kube) -> None:
    # It serves before its second controller stands by.
    status = settled(kube)["status"]
    assert status["brokers"] == {"wanted": 3, "ready": 3, "current": 3}
    assert status["controllers"]["ready"] == 2
    pods = kube.pods("odradek.io/cluster=demo")
    assert len(pods) == 8, "three brokers, two controllers, three ZooKeeper servers"
    for pod in pods:
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        for container in pod["spec"]["containers"]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
    brokers = kube.pods("app.kubernetes.io/component=broker")
    assert all(one["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"] for one in brokers)
    assert len(kube.items("pvc", "app.kubernetes.io/component=broker")) == 3
    refused = [one["message"] for one in kube.items("events") if one["reason"] == "FailedCreate"]
    assert not any("serviceaccount" in one for one in refused), f"pods came before their accounts: {refused}"


def test_a_healthy_start_puts_no_warning_on_pods(kube: Kube) -> None:
    """Until a pod is ready. Later a busy machine may let a single probe fail, which changes nothing."""
    settled(kube)
    for namespace in (kube, Kube(OPERATOR_NAMESPACE)):
        ready_at = {
            pod["metadata"]["name"]: condition(pod, "Ready").get("lastTransitionTime")
            for pod in namespace.pods()
        }
        warnings = [
            f"{one['involvedObject']['name']}: {one['message']}"
            for one in namespace.items("events")
            if one["reason"] == "Unhealthy"
            and not is_after(one.get("firstTimestamp"), ready_at.get(one["involvedObject"]["name"]))
        ]
        assert warnings == []


def is_after(time_text: str | None, other: str | None) -> bool:
    """Whether a time of Kubernetes, which sorts as it is written, is known to be later than another."""
    return time_text is not None and other is not None and time_text > other


def test_clients_are_bound_by_config_maps_and_no_secret_is_made(kube: Kube) -> None:
    made = [one["metadata"]["name"] for one in kube.items("secrets") if one["type"] != "helm.sh/release.v1"]
    assert made == []
    reported = (kube.get("configmap", "demo-binding") or {})["data"]
    assert reported["type"] == "kafka"
    assert reported["security.protocol"] == "PLAINTEXT"
    options = (kube.get("configmap", "demo-spark") or {})["data"]
    assert options["spark.odradek.bootstrap.servers"] == reported["bootstrapServers"]
    listed = kube.inside(CLIENT_POD, "kcat", "-m", "60", "-L", "-b", reported["bootstrapServers"])
    assert "3 brokers" in listed
    assert "demo-broker-0.demo-brokers.demo.svc.cluster.local:9092" in listed


def test_what_kcat_produces_kafka_python_reads(kube: Kube, topic: str) -> None:
    values = [f"value-{number}" for number in range(500)]
    produce(kube, BOOTSTRAP, topic, values)
    held = everything(kube, BOOTSTRAP, topic)
    assert sorted(value or "" for _, _, _, value in held) == sorted(values)
    assert {partition for partition, _, _, _ in held} == {0, 1, 2}


def test_the_charts_own_test_passes(kube: Kube) -> None:
    assert "Succeeded" in helm_test()


def test_objects_that_are_deleted_by_hand_are_back(kube: Kube) -> None:
    pods = uids(kube.pods(OURS))
    objects = (
        "service/demo-bootstrap",
        "configmap/demo-spark",
        "configmap/demo-binding",
        "serviceaccount/demo-controller",
        "poddisruptionbudget/demo-broker",
        "networkpolicy/demo-broker",
    )
    before = {one: uid_of(kube, one) for one in objects}
    kube.run("delete", *objects)
    began = time.monotonic()
    until(
        lambda: {one: uid_of(kube, one) for one in objects},
        lambda now: all(now[one] not in ("", before[one]) for one in objects),
        seconds_max=BACK_SECONDS_MAX,
        what="all of them are there again",
    )
    print(f"\n{len(objects)} objects were back after {time.monotonic() - began:.1f} s")
    settled(kube)
    assert uids(kube.pods(OURS)) == pods


def uid_of(kube: Kube, what: str) -> str:
    kind, _, name = what.partition("/")
    return str((kube.get(kind, name) or {}).get("metadata", {}).get("uid", ""))


def test_objects_of_others_are_left_alone_and_named(kube: Kube) -> None:
    """A second Cluster finds two of its names taken."""
    theirs = {"app": "theirs"}
    service = {"ports": [{"port": 80}], "selector": theirs}
    kube.apply(
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "taken-bootstrap"}, "spec": service},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "taken-binding"}, "data": theirs},
    )
    objects = [("service", "taken-bootstrap"), ("configmap", "taken-binding")]
    before = [kube.get(*one) for one in objects]
    small = {"requests": {"cpu": "20m", "memory": "64Mi"}}
    spec = {
        "zookeeper": {"servers": {"replicas": 1, "storage": {"size": "1Gi"}, "resources": small}},
        "brokers": {"replicas": 1, "storage": {"size": "1Gi"}, "resources": small},
        "deletionPolicy": "Delete",
    }
    about = {"name": "taken"}
    kube.apply({"apiVersion": "odradek.io/v1", "kind": "Cluster", "metadata": about, "spec": spec})
    reported = until(
        lambda: kube.get("cluster", "taken"),
        lambda one: condition(one, "Ready").get("reason") == "ObjectsOfOthers",
        seconds_max=60,
        what="the Cluster says what stands in its way",
    )
    message = condition(reported, "Ready")["message"]
    assert "Service taken-bootstrap" in message and "ConfigMap taken-binding" in message
    assert kube.get("statefulset", "taken-broker") is None, "behind that Service are pods of others"
    kube.run("delete", "cluster", "taken")
    until(
        lambda: kube.items("pods", "odradek.io/cluster=taken"),
        lambda pods: not pods,
        seconds_max=120,
        what="what the Cluster has made is gone",
    )
    assert [kube.get(*one) for one in objects] == before
    for one in objects:
        kube.delete(*one)
