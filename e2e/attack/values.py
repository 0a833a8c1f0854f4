"""Declarations that are wrong, refused or limited by the namespace, and commands as they are printed."""

from __future__ import annotations

import json
import subprocess

from e2e.attack.attacks import attack
from e2e.attack.field import ASIDE, Field, of, small_cluster, wait_seconds
from e2e.kube import Kube, KubectlError, Resource

NOTES_SECONDS_MAX = 300
CALM_SECONDS = 20.0


def refused(kube: Kube, resource: Resource) -> str:
    """What the API server says to a resource that it must refuse."""
    try:
        kube.apply(resource)
    except KubectlError as refusal:
        return str(refusal)
    raise AssertionError(
        f"{resource['kind']} {resource['metadata']['name']} was not refused: {resource['spec']}"
    )


@attack("nothing happens: what the machine itself makes clients wait")
def nothing(field: Field) -> None:
    wait_seconds(CALM_SECONDS)
    field.until(lambda: field.is_ready(field.kube, "cluster", "demo"), "the Cluster is Ready")


@attack("wrong values are refused in words that say what is meant")
def wrong_values(field: Field) -> None:
    kube = Kube(ASIDE)

    def topic(**config: object) -> Resource:
        return of(
            "Topic",
            "wrong",
            cluster="none",
            partitions=1,
            config={k.replace("_", "."): v for k, v in config.items()},
        )

    assert "bytes, as 10737418240 for 10 GiB" in refused(kube, topic(retention_bytes="10GB"))
    assert "set retention.ms" in refused(kube, topic(retention_hours=168))
    sized = small_cluster("wrong")
    sized["spec"]["brokers"]["storage"]["size"] = "10GB"
    assert "must be a quantity such as" in refused(kube, sized)
    kept = small_cluster("wrong")
    kept["spec"]["brokers"]["config"] = {"log.retention.bytes": "10GB"}
    assert "bytes, as 10737418240 for 10 GiB" in refused(kube, kept)
    assert not kube.items("clusters")


@attack("a Cluster that Kubernetes refuses makes nothing, and is made once it may be")
def refused_cluster_makes_nothing(field: Field) -> None:
    kube = Kube(ASIDE)
    cluster = small_cluster("refused", deletionPolicy="Delete")
    cluster["spec"]["brokers"]["pod"] = {"tolerations": [{"key": "a b", "operator": "Exists"}]}
    try:
        kube.apply(cluster)
        field.until(
            lambda: "a b" in str((kube.get("cluster", "refused") or {}).get("status", {}).get("conditions")),
            "the Cluster says what was refused",
            60,
        )
        wait_seconds(10)
        for kind in ("pods", "statefulsets", "deployments", "pvc", "services"):
            assert not kube.items(kind), f"a refused Cluster has made {kind}"
        kube.patch("cluster", "refused", {"spec": {"brokers": {"pod": {"tolerations": []}}}})
        kube.ready("cluster", "refused", 240)
    finally:
        field.empty(ASIDE)


@attack("a quota of the namespace refuses pods: the Cluster says so, and is made once there is room")
def quota_of_the_namespace(field: Field) -> None:
    kube = Kube(ASIDE)
    quota: Resource = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "tight"}}
    try:
        kube.apply({**quota, "spec": {"hard": {"pods": "1"}}}, small_cluster("side", deletionPolicy="Delete"))
        field.until(
            lambda: "quota" in str((kube.get("cluster", "side") or {}).get("status", {}).get("conditions")),
            "the Cluster names the quota",
        )
        kube.apply({**quota, "spec": {"hard": {"pods": "9"}}})
        kube.ready("cluster", "side", 300)
    finally:
        kube.delete("resourcequota", "tight")
        field.empty(ASIDE)


@attack("the namespace asks for the restricted pod security standard: the Cluster serves")
def restricted_namespace(field: Field) -> None:
    kube = Kube(ASIDE)
    label = "pod-security.kubernetes.io/enforce"
    kube.run("label", "namespace", ASIDE, f"{label}=restricted", "--overwrite")
    try:
        with field.side_cluster("side", deletionPolicy="Delete"):
            pass
    finally:
        kube.run("label", "namespace", ASIDE, f"{label}-")


@attack("the commands that `helm install` prints work as they are printed")
def notes_as_printed(field: Field) -> None:
    spec = {**small_cluster("log")["spec"], "deletionPolicy": "Delete"}
    topics = {"orders": {"partitions": 1, "replicas": 1}}
    values = f"cluster.spec={json.dumps(spec)},topics={json.dumps(topics)}"
    printed = field.helm("install", "log", "helm/odradek", "--namespace", ASIDE, "--set-json", values)
    try:
        commands = [
            line.strip()
            for line in printed.splitlines()
            if line.startswith(("  kubectl ", "  helm ", "  echo "))
        ]
        assert len(commands) >= 5, printed
        assert any("consume hello" in one for one in commands)
        for command in commands:
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", command],
                capture_output=True,
                text=True,
                timeout=NOTES_SECONDS_MAX,
                check=False,
            )
            assert done.returncode == 0, f"{command}: {done.stdout[-500:]}{done.stderr[-500:]}"
            if "consume hello" in command:
                assert "world" in done.stdout, done.stdout
    finally:
        field.helm("uninstall", "log", "--namespace", ASIDE, "--wait", "--timeout", "2m")
        field.empty(ASIDE)
