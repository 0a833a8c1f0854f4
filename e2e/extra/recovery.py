"""ZooKeeper's volumes are lost under load, and restored from a backup as docs/zookeeper-backup.md says."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from e2e import boot
from e2e.conftest import pods_by_name, settled
from e2e.install import BOOTSTRAP, NAMESPACE
from e2e.kube import Kube, Resource, until
from e2e.workload import RECORDS_PER_SECOND, load_on
from tests.support.pages import Block, blocks_of

PAGE = "docs/zookeeper-backup.md"
BACKUP = "zookeeper-backup.tar"
SERVERS = 3
CLAIMS = [f"data-demo-zookeeper-{index}" for index in range(SERVERS)]
TO_ZOOKEEPER = "demo-zookeeper:2181/demo/demo"


def lose_and_restore(kube: Kube, topic: str, folder: Path) -> None:
    """Lose all volumes under a load, recover as the page says, and check that no acknowledged record is lost."""
    take, put_back, raise_epochs = blocks_of(boot.CHECKOUT / PAGE, page=PAGE)
    settled(kube)
    with load_on(kube, BOOTSTRAP, topic, RECORDS_PER_SECOND) as load:
        back_up(take, folder)
        lose_the_volumes(kube)
        until(lambda: kube.get("cluster", "demo"), is_lost, seconds_max=120, what="the Cluster says so")
        time.sleep(20)
    load.check_promises(kube, BOOTSTRAP)
    print(f"\n| ZooKeeper's volumes lost | {len(load.acknowledged):,} | {load.gap_seconds} s |")

    assert policies(kube) == {"Retain"}, "the brokers' volumes would be deleted with the pods"
    kube.run("annotate", "cluster", "demo", "odradek.io/paused=true")
    kube.run("scale", "statefulset/demo-broker", "deployment/demo-controller", "--replicas=0")
    without_pods(kube, "broker")
    without_pods(kube, "controller")
    kube.run("scale", "statefulset/demo-zookeeper", "--replicas=0")
    without_pods(kube, "zookeeper")
    restore(kube, put_back, folder / BACKUP)
    kube.run("scale", "statefulset/demo-zookeeper", f"--replicas={SERVERS}")
    until(lambda: serving(kube), lambda count: count == SERVERS, seconds_max=120, what="ZooKeeper serves")
    with_pod(kube, "raising", [])
    kube.inside("raising", "env", f"ZOOKEEPER={TO_ZOOKEEPER}", "python", "-c", raise_epochs.text)
    kube.delete("pod", "raising")
    kube.run("annotate", "cluster", "demo", "odradek.io/paused-")
    settled(kube)

    load.check_kept(kube, BOOTSTRAP)
    with load_on(kube, BOOTSTRAP, topic, RECORDS_PER_SECOND) as after:
        time.sleep(5)
    after.check_promises(kube, BOOTSTRAP)
    load.check_kept(kube, BOOTSTRAP)


def back_up(block: Block, folder: Path) -> None:
    """The page's block, with what it says to begin the command with."""
    command = block.text.replace("tar ", f"kubectl --namespace {NAMESPACE} exec demo-zookeeper-0 -- tar ", 1)
    subprocess.run(
        ["sh", "-euc", command], check=True, cwd=folder, env={**os.environ, "DATA": "/data"}, timeout=60
    )
    assert (folder / BACKUP).stat().st_size > 0


def lose_the_volumes(kube: Kube) -> None:
    """Each server comes back with a new and empty volume."""
    before = pods_by_name(kube, "zookeeper")
    kube.delete("pvc", *CLAIMS, wait=False)
    kube.run("delete", "pod", *before, "--grace-period=0", "--force")
    until(
        lambda: pods_by_name(kube, "zookeeper"),
        lambda now: now.keys() == before.keys() and not set(now.values()) & set(before.values()),
        seconds_max=120,
        what="servers with new volumes",
    )


def is_lost(cluster: Resource) -> bool:
    stated = cluster.get("status", {}).get("conditions", [])
    return any(one["reason"] == "ZookeeperDataLost" and PAGE in one["message"] for one in stated)


def without_pods(kube: Kube, component: str) -> None:
    until(
        lambda: kube.items("pods", f"app.kubernetes.io/component={component}"),
        lambda pods: not pods,
        seconds_max=120,
        what=f"no pod of component {component} is left",
    )


def policies(kube: Kube) -> set[str]:
    """What becomes of volumes when the servers or brokers are scaled down."""
    found = [kube.get("statefulset", f"demo-{part}") or {} for part in ("zookeeper", "broker")]
    return {one["spec"]["persistentVolumeClaimRetentionPolicy"]["whenScaled"] for one in found}


def serving(kube: Kube) -> int:
    found = kube.get("statefulset", "demo-zookeeper") or {}
    return int(found.get("status", {}).get("readyReplicas", 0))


def restore(kube: Kube, block: Block, backup: Path) -> None:
    """The page's block for each server's claim, in a pod that has them all."""
    with_pod(kube, "restoring", CLAIMS)
    with backup.open("rb") as file:
        subprocess.run(
            [
                *("kubectl", "--namespace", NAMESPACE, "exec", "-i", "restoring", "--"),
                *("sh", "-c", f"cat > /tmp/{BACKUP}"),
            ],
            check=True,
            stdin=file,
            timeout=60,
        )
    for claim in CLAIMS:
        kube.inside("restoring", "env", f"DATA=/volumes/{claim}", "sh", "-euc", f"cd /tmp\n{block.text}")
    kube.delete("pod", "restoring")


def with_pod(kube: Kube, name: str, claims: list[str]) -> None:
    """A pod that waits, with those claims, as the user that ZooKeeper's servers run as."""
    template = (kube.get("statefulset", "demo-zookeeper") or {})["spec"]["template"]["spec"]
    container = {
        "name": name,
        "image": boot.image("broker"),
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "600"],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": claim, "mountPath": f"/volumes/{claim}"} for claim in claims],
    }
    spec = {
        "containers": [container],
        "securityContext": template["securityContext"],
        "terminationGracePeriodSeconds": 0,
        "volumes": [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims],
    }
    kube.apply(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}
    )
    kube.run("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=120s")
