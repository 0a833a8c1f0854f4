"""Two Helm installs give a replicated cluster that stock clients use from pods."""

from __future__ import annotations

import base64

from e2e.conftest import settled
from e2e.install import BOOTSTRAP, OPERATOR_NAMESPACE, helm_test
from e2e.kube import Kube
from e2e.workload import CLIENT_POD, everything, produce


def test_the_installation_is_whole_and_restricted(kube: Kube) -> None:
    # It serves before its second controller stands by.
    status = settled(kube)["status"]
    assert status["brokers"] == {"wanted": 3, "ready": 3, "current": 3}
    assert status["controllers"]["ready"] == 2
    pods = kube.items("pods", "odradek.io/cluster=demo")
    assert len(pods) == 8, "three brokers, two controllers, three ZooKeeper servers"
    for pod in pods:
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        for container in pod["spec"]["containers"]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
    brokers = kube.items("pods", "app.kubernetes.io/component=broker")
    assert all(one["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"] for one in brokers)
    assert len(kube.items("pvc", "app.kubernetes.io/component=broker")) == 3
    refused = [one["message"] for one in kube.items("events") if one["reason"] == "FailedCreate"]
    assert not any("serviceaccount" in one for one in refused), f"pods came before their accounts: {refused}"


def test_a_healthy_start_puts_no_warning_on_pods(kube: Kube) -> None:
    settled(kube)
    for namespace in (kube, Kube(OPERATOR_NAMESPACE)):
        warnings = [
            f"{one['involvedObject']['name']}: {one['message']}"
            for one in namespace.items("events")
            if one["reason"] == "Unhealthy"
        ]
        assert warnings == []


def test_clients_are_bound_by_a_secret_and_a_config_map(kube: Kube) -> None:
    secret = (kube.get("secret", "demo-binding") or {})["data"]
    told = {key: base64.b64decode(value).decode() for key, value in secret.items()}
    assert told["type"] == "kafka"
    assert told["security.protocol"] == "PLAINTEXT"
    options = (kube.get("configmap", "demo-spark") or {})["data"]
    assert options["spark.odradek.bootstrap.servers"] == told["bootstrapServers"]
    listed = kube.inside(CLIENT_POD, "kcat", "-L", "-b", told["bootstrapServers"])
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
