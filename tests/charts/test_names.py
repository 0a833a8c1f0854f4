"""What the chart calls a Cluster, and what it says when a release's name cannot be one."""

from __future__ import annotations

import pytest

from tests.support.helm import HelmFailed, objects, template


@pytest.mark.thorough
@pytest.mark.parametrize("release", ["a" * 41, "9lives"])
def test_a_release_name_that_no_cluster_may_have_says_what_to_set(release: str) -> None:
    with pytest.raises(HelmFailed, match=r"cluster\.name: .* at most 40 characters; set cluster\.name"):
        template("odradek", release=release)
    assert objects(template("odradek", release=release, settings=["cluster.name=log"]))


@pytest.mark.thorough
def test_resources_go_to_the_cluster_that_is_named() -> None:
    settings = ["cluster.name=ledger", "topics.orders.partitions=2", "consumerGroups.billing.groupId=billing"]
    for found in objects(template("odradek", settings=settings)):
        if found["kind"] == "Cluster":
            assert found["metadata"]["name"] == "ledger"
        elif found["apiVersion"] == "odradek.io/v1":
            assert found["spec"]["cluster"] == "ledger"


@pytest.mark.thorough
def test_a_topics_own_fields_win_over_defaults_even_when_false_or_null() -> None:
    settings = [
        "topicDefaults.replicas=3",
        "topicDefaults.config.unclean\\.leader\\.election\\.enable=true",
        "topicDefaults.config.retention\\.ms=1000",
        "topics.orders.config.unclean\\.leader\\.election\\.enable=false",
        "topics.orders.config.segment\\.jitter\\.ms=0",
        "topics.plain.partitions=2",
    ]
    specs = {
        found["metadata"]["name"]: found["spec"]
        for found in objects(template("odradek", settings=settings, show_only=["templates/topics.yaml"]))
    }
    defaults = {"unclean.leader.election.enable": True, "retention.ms": 1000}
    assert specs["plain"] == {"cluster": "log", "partitions": 2, "replicas": 3, "config": defaults}
    assert specs["orders"]["config"] == {
        "unclean.leader.election.enable": False,
        "retention.ms": 1000,
        "segment.jitter.ms": 0,
    }


@pytest.mark.thorough
def test_sizes_in_bytes_stay_whole_numbers() -> None:
    setting = "topics.orders.config.retention\\.bytes=1099511627776"
    text = template("odradek", settings=[setting], show_only=["templates/topics.yaml"])
    assert "retention.bytes: 1099511627776" in text


@pytest.mark.thorough
def test_pull_secrets_reach_every_pod_that_names_none() -> None:
    settings = ["global.imagePullSecrets={pull}", "cluster.spec.controllers.pod.imagePullSecrets[0].name=own"]
    (cluster,) = objects(template("odradek", settings=settings, show_only=["templates/cluster.yaml"]))
    pods = {
        "brokers": cluster["spec"]["brokers"]["pod"],
        "controllers": cluster["spec"]["controllers"]["pod"],
        "zookeeper": cluster["spec"]["zookeeper"]["servers"]["pod"],
    }
    assert {name: pod["imagePullSecrets"] for name, pod in pods.items()} == {
        "brokers": [{"name": "pull"}],
        "controllers": [{"name": "own"}],
        "zookeeper": [{"name": "pull"}],
    }
