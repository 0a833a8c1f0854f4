"""The check before an upgrade: what is refused, what is only said, and that a missing kind is none."""

from __future__ import annotations

from typing import Any

from odradek_operator.gateways.kubernetes import APIS
from odradek_operator.main.check_upgrade import check_upgrade
from tests.operator.support.kubernetes import MemoryKubernetes
from tests.operator.support.world import manifest
from tests.support.loop import run

READY = {"type": "Ready", "status": "True", "reason": "Serving", "message": "all brokers serve"}


class Site:
    """A Kubernetes with Clusters and ConsumerGroups that no operator reconciles."""

    def __init__(self) -> None:
        self.kubernetes = MemoryKubernetes()
        self.said: list[str] = []

    def make(self, kind: str, name: str, spec: Any, **status: Any) -> None:
        self.kubernetes.objects.create(manifest(APIS[kind], name, spec, namespace="shop"))
        self.kubernetes.objects.merge(APIS[kind], "shop", name, {"status": status})

    def cluster(self, name: str, *, ran: str | None = None, **spec: Any) -> None:
        status = {"conditions": [READY], **({"newestVersion": ran} if ran else {})}
        self.make("Cluster", name, {"zookeeper": {"servers": {}}, **spec}, **status)

    def check(self) -> int:
        self.said.clear()
        return run(
            check_upgrade(self.kubernetes, ["shop"], broker_image="broker:0.1.0", say=self.said.append)
        )


def test_clusters_that_this_operator_runs_are_no_problem() -> None:
    site = Site()
    site.cluster("follows", ran="0.1.0")
    site.cluster("pinned", ran="0.1.0", image="broker:0.2.0")
    assert site.check() == 0
    assert site.said[-1] == "2 Clusters looked at, 0 of them with a problem"
    assert [line for line in site.said if line.startswith("note")] == [
        "note: Cluster shop/follows: follows the operator's default image: its brokers are replaced where that is "
        "another"
    ]


def test_a_version_that_this_operator_does_not_know_is_a_problem() -> None:
    site = Site()
    site.cluster("newer", ran="9.1.0", image="broker:9.1.0")
    site.cluster("reverted", ran="9.1.0", image="broker:0.1.0")
    site.cluster("unnamed", ran="0.1.0", image="broker@sha256:0123")
    site.cluster("well", ran="0.1.0")
    assert site.check() == 3
    problems = [line for line in site.said if line.startswith("problem")]
    assert [line.split(": ")[1] for line in problems] == [
        "Cluster shop/newer",
        "Cluster shop/reverted",
        "Cluster shop/unnamed",
    ]
    assert "brokers of 0.1 to 0.2" in problems[0] and "9.1.0 have run here" in problems[1]
    assert "spec.version" in problems[2]


def test_what_an_upgrade_meets_on_its_way_is_said() -> None:
    site = Site()
    site.make(
        "Cluster",
        "moving",
        {"zookeeper": {"servers": {}}},
        movement={"reason": "ScaleUp", "total": 3, "left": 2},
    )
    site.cluster("main", ran="0.1.0", image="broker:0.1.0", scalableWorkloads=[{"name": "named-*"}])
    for name, app in (("one", "named-1"), ("two", "other")):
        workload = {"kind": "Deployment", "name": app}
        site.make("ConsumerGroup", name, {"cluster": "main", "replicas": 2, "workload": workload})
    assert site.check() == 0
    text = "\n".join(site.said)
    assert "Cluster shop/moving: is not Ready now" in text
    assert "Cluster shop/moving: partitions are on their way" in text
    assert "ConsumerGroup shop/two: Deployment other is scaled no more until spec.scalableWorkloads" in text
    assert "shop/one" not in text


def test_before_a_first_operator_there_is_nothing_to_check() -> None:
    site = Site()
    assert site.check() == 0
    assert site.said == ["0 Clusters looked at, 0 of them with a problem"]
