"""Changes that touch no pod: a setting that brokers take live, and a scale-down that is blocked."""

from __future__ import annotations

from e2e.conftest import RUN, declare_topic, named, pods_by_name, settled
from e2e.install import BOOTSTRAP, upgrade_cluster
from e2e.kube import Kube, condition, until
from e2e.workload import listed_with


def test_a_setting_that_brokers_take_live_restarts_none(kube: Kube) -> None:
    before = pods_by_name(kube, "broker")
    upgrade_cluster(
        "--set", rf"cluster.spec.brokers.config.message\.max\.bytes={1_000_000 + int(RUN, 16) % 97}"
    )
    settled(kube)
    assert pods_by_name(kube, "broker") == before


def test_a_scale_down_that_is_blocked_changes_nothing_else(kube: Kube) -> None:
    """Topics with three replicas keep the third broker; what is meant for three brokers holds until it is empty."""
    before = pods_by_name(kube, "broker")
    upgrade_cluster("--set", "cluster.spec.brokers.replicas=2")
    reported = until(
        lambda: kube.get("cluster", "demo"),
        lambda one: condition(one, "Scaling").get("reason") == "Blocked",
        seconds_max=60,
        what="the Cluster says that a broker cannot be emptied",
    )
    assert "all 3 brokers serve; 2 wanted" in condition(reported, "Ready")["message"]
    # Another look, which could still have changed them.
    kube.run("annotate", "cluster", "demo", f"e2e.odradek.io/look={RUN}", "--overwrite")
    declare_topic(kube, named("scaling"), partitions=1)
    (partition,) = listed_with(kube, BOOTSTRAP, named("scaling"), 1)
    assert len(partition["replicas"]) == 3
    for key, value in (("min.insync.replicas", "2"), ("default.replication.factor", "3")):
        described = kube.inside(
            "demo-broker-0", "odradek", "configs", "describe", "broker", "0", key, "--bootstrap", BOOTSTRAP
        )
        found = [line.split() for line in described.splitlines() if key in line]
        assert found and value in found[0], described
    upgrade_cluster("--set", "cluster.spec.brokers.replicas=3")
    cluster = settled(kube)
    assert condition(cluster, "Scaling") == {}
    assert pods_by_name(kube, "broker") == before, "no broker was restarted"
