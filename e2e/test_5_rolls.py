"""Changes roll through the brokers under load without a failed write."""

from __future__ import annotations

import os

import pytest

from e2e import boot
from e2e.conftest import RUN, pods_by_name, settled
from e2e.install import BOOTSTRAP, upgrade_cluster
from e2e.kube import Kube, condition, until
from e2e.workload import load_on

pytestmark = pytest.mark.quiet

ROLL_SECONDS_MAX = 240.0
NOT_BEFORE = int(RUN, 16) % 97 + 1  # a value that an earlier run on a cluster that was kept has hardly set


def test_a_setting_that_needs_a_restart_rolls_through_the_brokers(kube: Kube, topic: str) -> None:
    before = pods_by_name(kube, "broker")
    with load_on(kube, BOOTSTRAP, topic) as load:
        upgrade_cluster(
            "--set", rf"cluster.spec.brokers.config.replica\.fetch\.wait\.max\.ms={400 + NOT_BEFORE}"
        )
        settled(kube, ROLL_SECONDS_MAX)
    after = pods_by_name(kube, "broker")
    assert after.keys() == before.keys()
    assert all(after[name] != before[name] for name in before), "every broker was to restart"
    load.check_promises(kube, BOOTSTRAP)


@pytest.mark.thorough
def test_another_image_rolls_through_all_pods(kube: Kube, topic: str) -> None:
    image = another_image()
    before = {**pods_by_name(kube, "broker"), **pods_by_name(kube, "controller")}
    with load_on(kube, BOOTSTRAP, topic) as load:
        upgrade_cluster("--set-string", f"cluster.spec.image={image}")
        cluster = settled(kube, ROLL_SECONDS_MAX)
    after = {**pods_by_name(kube, "broker"), **pods_by_name(kube, "controller")}
    assert not set(before.values()) & set(after.values()), "every pod was to be replaced"
    assert cluster["status"]["image"] == image
    assert condition(cluster, "Rolling").get("status") != "True"
    load.check_promises(kube, BOOTSTRAP)


def test_everything_restarts_one_pod_at_a_time(kube: Kube, topic: str) -> None:
    """ZooKeeper's servers, brokers and controllers: each step waits for sessions and an active controller."""
    parts = ("zookeeper", "broker", "controller")
    before = {part: pods_by_name(kube, part) for part in parts}
    with load_on(kube, BOOTSTRAP, topic) as load:
        kube.run("annotate", "cluster", "demo", f"odradek.io/restart=e2e-{RUN}", "--overwrite")
        until(
            lambda: pods_by_name(kube, "zookeeper"),
            lambda now: (
                now.keys() == before["zookeeper"].keys()
                and set(now.values()).isdisjoint(before["zookeeper"].values())
            ),
            seconds_max=ROLL_SECONDS_MAX,
            what="every ZooKeeper server was replaced",
        )
        settled(kube, ROLL_SECONDS_MAX)
    for part in parts:
        assert set(pods_by_name(kube, part).values()).isdisjoint(before[part].values()), f"a {part} stayed"
    load.check_promises(kube, BOOTSTRAP)


def another_image() -> str:
    """The broker's image by another name: named by ODRADEK_E2E_NEXT_IMAGE, or made on the one-node cluster."""
    if named := os.environ.get("ODRADEK_E2E_NEXT_IMAGE"):
        return named
    if not boot.is_one_node():
        pytest.skip("ODRADEK_E2E_NEXT_IMAGE names no other image of the broker")
    name = boot.image("broker") + "-next"
    boot.name_image(boot.image("broker"), name)
    return name
