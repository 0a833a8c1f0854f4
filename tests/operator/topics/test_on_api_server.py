"""Topics and ConsumerGroups on a real API server: what it refuses at once, and the operator's process at work there."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from odradek_operator.gateways.kubernetes import CLUSTERS, CONSUMER_GROUPS, TOPICS
from tests.operator.support.broker_world import BrokerWithAdmin
from tests.operator.support.world import manifest
from tests.support.broker_process import CHECKOUT, free_port
from tests.support.kubernetes_api import ApiServer, running_api_server
from tests.support.polling import SECONDS_MAX, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.thorough]

NAMESPACE = "shop"
_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with running_api_server(tmp_path_factory.mktemp("api-server")) as running:
        running.make_cluster(NAMESPACE)
        yield running


@pytest.fixture(scope="module")
def operator(
    server: ApiServer, broker: BrokerWithAdmin, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[int]:
    """A running operator; its HTTP port."""
    port = free_port()
    options = {
        "bootstrap": broker.bootstrap,
        "admin_port": broker.admin_port,
        "namespace": NAMESPACE,
        "http_port": port,
        "resync_seconds": 300,
    }
    paths = f"{CHECKOUT / 'broker'}:{CHECKOUT / 'operator'}:{CHECKOUT}"
    log = tmp_path_factory.mktemp("operator") / "log"
    with log.open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.operator.support.operator_process", json.dumps(options)],
            env={**os.environ, "KUBECONFIG": str(server.kubeconfig), "PYTHONPATH": paths},
            stdout=said,
            stderr=said,
        )
    try:
        yield port
        assert process.poll() is None, log.read_text()[-4000:]
    finally:
        process.terminate()
        process.wait(SECONDS_MAX)


def resource(kind: str, name: str, /, **spec: Any) -> str:
    api = {"Topic": TOPICS, "ConsumerGroup": CONSUMER_GROUPS}[kind]
    return json.dumps(manifest(api, name, {"cluster": "dev", **spec}, namespace=NAMESPACE))


def name(prefix: str = "t") -> str:
    return f"{prefix}-{next(_NUMBERS)}"


def apply(server: ApiServer, kind: str, called: str, /, **spec: Any) -> None:
    server.kubectl("apply", "--filename", "-", given=resource(kind, called, **spec))


def refusal(server: ApiServer, kind: str, called: str, /, **spec: Any) -> str:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        apply(server, kind, called, **spec)
    return str(refused.value.output)


def shown(server: ApiServer, kind: str, called: str) -> Any:
    found = server.kubectl("get", f"{kind}.odradek.io", called, "--namespace", NAMESPACE, "--output", "json")
    return json.loads(found)


def ready(server: ApiServer, kind: str, called: str) -> tuple[str, str] | None:
    conditions = shown(server, kind, called).get("status", {}).get("conditions", [])
    return next(((one["status"], one["reason"]) for one in conditions if one["type"] == "Ready"), None)


# --- what is refused at once ---------------------------------------------------------------------------------------


def test_a_number_may_be_a_text(server: ApiServer) -> None:
    called = name()
    apply(
        server, "Topic", called, replicas=2, config={"retention.ms": "604800000", "min.insync.replicas": "2"}
    )
    assert shown(server, "topic", called)["spec"]["config"]["retention.ms"] == "604800000"
    said = refusal(server, "Topic", name(), replicas=2, config={"min.insync.replicas": "3"})
    assert "min.insync.replicas must not be more than replicas" in said


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"name": "a b"}, "spec.name"),
        ({"name": ".."}, "name must not be . or .."),
        ({"name": "__consumer_offsets"}, "the brokers' own topics"),
        ({"partitions": 0}, "spec.partitions"),
        ({"replicas": 0}, "spec.replicas"),
        (
            {"replicas": 2, "config": {"min.insync.replicas": 3}},
            "min.insync.replicas must not be more than replicas",
        ),
        (
            {"config": {"min.compaction.lag.ms": 9, "max.compaction.lag.ms": 8}},
            "min.compaction.lag.ms must not be more than max.compaction.lag.ms",
        ),
        ({"config": {"retention.ms": "7 days"}}, "must be a whole number from -1"),
        ({"config": {"retention.ms": "-2"}}, "must be a whole number from -1"),
        ({"config": {"retention.ms": -2}}, "should be greater than or equal to -1"),
        ({"config": {"retention.ms": "1.5"}}, "must be a whole number"),
        ({"config": {"retention.ms": "9" * 30}}, "may not be more than 20"),
        ({"config": {"cleanup.policy": "burn"}}, "cleanup.policy"),
        ({"config": {"compression.type": "rar"}}, "Unsupported value"),
        ({"config": {"retention.m": 5}}, "unknown field"),
        ({"deletionPolicy": "Perhaps"}, "Unsupported value"),
        ({"cluster": "Not_A_Name"}, "spec.cluster"),
    ],
)
def test_a_wrong_topic_is_refused(server: ApiServer, spec: dict[str, Any], why: str) -> None:
    assert why in refusal(server, "Topic", name(), **spec)


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"retention.bytes": "10GB"}, "must be a whole number: bytes, as 10737418240 for 10 GiB"),
        ({"segment.bytes": "1Gi"}, "must be a whole number from 1048576 to 2147483647: bytes"),
        ({"retention.ms": "7d"}, "must be a whole number from -1: milliseconds, as 604800000 for 7 days"),
        ({"retention.hours": 168}, "retention.hours cannot be set here; set retention.ms, in milliseconds"),
        ({"log.retention.ms": "5"}, "log.retention.ms cannot be set here; set retention.ms"),
        ({"replication.factor": 3}, "replication.factor cannot be set here; set spec.replicas"),
        ({"remote.storage.enable": True}, "the brokers have no tiered storage"),
    ],
)
def test_what_is_meant_is_said_and_no_pattern(server: ApiServer, config: dict[str, Any], why: str) -> None:
    said = refusal(server, "Topic", name(), config=config)
    assert why in said and "should match" not in said and "unknown field" not in said


@pytest.mark.parametrize(
    ("brokers", "why"),
    [
        ({"storage": {"size": "10GB"}}, "must be a quantity such as 500m, 2Gi or 10G"),
        ({"resources": {"limits": {"memory": "2 GB"}}}, "must be a quantity such as 500m, 2Gi or 10G"),
        ({"config": {"log.retention.bytes": "10GB"}}, "bytes, as 10737418240 for 10 GiB"),
        ({"config": {"retention.ms": 5}}, "retention.ms cannot be set here; set log.retention.ms"),
        ({"config": {"broker.rack": "a"}}, "set spec.brokers.rackLabel"),
    ],
)
def test_what_is_meant_is_said_of_a_cluster_too(server: ApiServer, brokers: dict[str, Any], why: str) -> None:
    spec = {"zookeeper": {"connect": "zk:2181"}, "brokers": brokers}
    given = json.dumps(manifest(CLUSTERS, "wrong", spec, namespace=NAMESPACE))
    with pytest.raises(subprocess.CalledProcessError) as refused:
        server.kubectl("apply", "--filename", "-", given=given)
    said = str(refused.value.output)
    assert why in said and "should match" not in said and "unknown field" not in said


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ({"partitions": 3}, {"partitions": 2}, "partitions never shrink"),
        ({"partitions": 3}, {}, "partitions never shrink"),
        ({}, {"cluster": "other"}, "cluster cannot be changed"),
        ({"name": "one"}, {"name": "two"}, "name cannot be changed"),
        ({"name": "one"}, {}, "name cannot be changed"),
        ({}, {"name": "one"}, "name cannot be changed"),
    ],
)
def test_what_cannot_change_does_not(
    server: ApiServer, before: dict[str, Any], after: dict[str, Any], why: str
) -> None:
    called = name()
    apply(server, "Topic", called, **before)
    assert why in refusal(server, "Topic", called, **after)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"members": {"min": 3, "max": 2}}, "min must not be more than max"),
        ({"initialPosition": {"at": "Earliest"}}, "initialPosition needs topics"),
        ({"topics": ["t"], "initialPosition": {"at": "Timestamp"}}, "at: Timestamp needs timestamp"),
        ({"topics": ["t"], "initialPosition": {"at": "Snapshot"}}, "Unsupported value"),
        ({"reset": {"id": "x", "to": {"at": "Duration"}}}, "at: Duration needs duration"),
        ({"reset": {"to": {"at": "Earliest"}}}, "spec.reset.id"),
        ({"reset": {"id": "x", "to": {"at": "Earliest"}, "whenActive": "Never"}}, "Unsupported value"),
    ],
)
def test_a_wrong_group_is_refused(server: ApiServer, spec: dict[str, Any], why: str) -> None:
    assert why in refusal(server, "ConsumerGroup", name("g"), **spec)


def test_a_reset_that_is_changed_needs_a_new_id(server: ApiServer) -> None:
    called = name("g")
    apply(server, "ConsumerGroup", called, topics=["t"], reset={"id": "one", "to": {"at": "Earliest"}})
    changed = {"id": "one", "to": {"at": "Latest"}}
    assert "needs a new id" in refusal(server, "ConsumerGroup", called, topics=["t"], reset=changed)
    apply(server, "ConsumerGroup", called, topics=["t"], reset={**changed, "id": "two"})


# --- the operator at work ------------------------------------------------------------------------------------------


def test_topics_become_topics_and_go_with_their_resources(server: ApiServer, operator: int) -> None:
    names = [name("made") for _ in range(12)]
    specs = {"partitions": 3, "replicas": 1, "config": {"retention.ms": 60000}, "deletionPolicy": "Delete"}
    given = "---\n".join(f"{resource('Topic', called, **specs)}\n" for called in names)
    server.kubectl("apply", "--filename", "-", given=given)
    waiting = ["wait", "--for=condition=Ready", "--filename", "-", f"--timeout={SECONDS_MAX:g}s"]
    server.kubectl(*waiting, given=given)
    status = shown(server, "topic", names[0])["status"]
    assert (status["partitions"], status["replicas"], status["records"]) == (3, 1, 0)
    table = server.kubectl("get", "ot", names[0], "--namespace", NAMESPACE)
    assert table.split("\n")[1].split()[:5] == [names[0], "dev", "3", "1", "True"]
    server.kubectl("delete", "--filename", "-", f"--timeout={SECONDS_MAX:g}s", given=given)


def test_a_group_is_shown_and_scaled(server: ApiServer, operator: int) -> None:
    topic, group = name("read"), name("g")
    apply(server, "Topic", topic)
    apply(server, "ConsumerGroup", group, topics=[topic], initialPosition={"at": "Latest"}, replicas=1)
    wait_until(
        "the group begins", lambda: shown(server, "consumergroup", group).get("status", {}).get("startedFrom")
    )
    wait_until("the group is governed", lambda: ready(server, "consumergroup", group) == ("True", "Governed"))
    server.kubectl("scale", f"consumergroup.odradek.io/{group}", "--replicas=4", "--namespace", NAMESPACE)
    assert shown(server, "consumergroup", group)["spec"]["replicas"] == 4
    table = server.kubectl("get", "ocg", group, "--namespace", NAMESPACE)
    assert table.split("\n")[1].split()[:6] == [group, "dev", "classic", "Empty", "0", "0"]


def test_without_a_cluster_a_topic_says_what_to_do_and_can_be_deleted(
    server: ApiServer, operator: int
) -> None:
    called = name("lost")
    apply(server, "Topic", called, cluster="nowhere", deletionPolicy="Delete")
    wait_until("it says so", lambda: ready(server, "topic", called) == ("False", "ClusterNotFound"))
    server.kubectl(
        "delete", f"topic.odradek.io/{called}", "--namespace", NAMESPACE, f"--timeout={SECONDS_MAX:g}s"
    )


def test_conditions_are_metrics(server: ApiServer, operator: int) -> None:
    called = name("measured")
    apply(server, "Topic", called)
    sample = f'odradek_resource_condition{{condition="Ready",kind="Topic",name="{called}",namespace="{NAMESPACE}"}} 1.0'

    def is_reported() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{operator}/metrics", timeout=10) as answer:
                return sample in answer.read().decode()
        except urllib.error.URLError:
            return False  # where this test is the first one, the operator is still on its way up

    wait_until("the condition is a metric", is_reported)
