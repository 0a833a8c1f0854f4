"""Resources that are deleted together, one before the other, or brought back as a backup has them."""

from __future__ import annotations

import json
from typing import Any

from e2e.attack.attacks import attack
from e2e.attack.field import ASIDE, READY_SECONDS_MAX, Field, of, wait_seconds
from e2e.attack.logins import login_of, said_to
from e2e.attack.volumes import VALUES, consumed, produced
from e2e.kube import Kube, Resource

LOGINS: dict[str, Any] = {
    "internalListener": {"authentication": {"type": "scram-sha-512"}},
    "authorization": {},
}
RIGHTS = [{"resource": {"type": "topic", "name": "kept"}, "operations": ["Read", "Write", "Describe"]}]


@attack(
    "Cluster and Users are deleted together, and come back on their volumes without one User: its login is gone"
)
def deleted_together_and_back_without_one(field: Field) -> None:
    kube = Kube(ASIDE)
    everyone = [of("User", name, cluster="side", acls=RIGHTS) for name in ("stays", "leaves")]
    topics = [
        of("Topic", "kept", cluster="side", partitions=1, replicas=1),
        of("Topic", "goes", cluster="side", partitions=1, replicas=1, deletionPolicy="Delete"),
    ]
    with field.side_cluster("side", **LOGINS):
        kube.apply(*everyone, *topics)
        for kind, name in (("user", "stays"), ("user", "leaves"), ("topic", "goes"), ("topic", "kept")):
            kube.ready(kind, name, READY_SECONDS_MAX)
        logins = {name: login_of(kube, name) for name in ("stays", "leaves")}
        assert said_to(field, *logins["leaves"]) == "yes"
        cluster = kube.get("cluster", "side") or {}
        kube.run(
            "delete", "cluster.odradek.io/side", "user/stays", "user/leaves", "topic/goes", "--wait=false"
        )
        field.until(lambda: not kube.items("pods", "odradek.io/cluster=side"), "the pods are gone")
        kube.apply(of("Cluster", "side", **cluster["spec"]), everyone[0])
        kube.ready("cluster", "side", READY_SECONDS_MAX)
        kube.ready("user", "stays", READY_SECONDS_MAX)
        login = login_of(kube, "stays")
        field.until(lambda: said_to(field, *login) == "yes", "the User that stays logs in")
        said = said_to(field, *logins["leaves"])
        assert said == "no", f"a User that was deleted logs in with its old password: {said}"


@attack(
    "a Cluster is deleted before its Topics and Users: they say that it is gone, and are Ready when it is back"
)
def cluster_deleted_first(field: Field) -> None:
    kube = Kube(ASIDE)
    named = (("topic", "kept"), ("user", "stays"))
    with field.side_cluster("side", **LOGINS):
        kube.apply(
            of("Topic", "kept", cluster="side", partitions=1, replicas=1),
            of("User", "stays", cluster="side", acls=RIGHTS),
        )
        for kind, name in named:
            kube.ready(kind, name, READY_SECONDS_MAX)
        spec = (kube.get("cluster", "side") or {})["spec"]
        kube.run("delete", "cluster.odradek.io/side", "--wait=false")
        for kind, name in named:
            field.condition(kube, kind, name, "Ready", "ClusterNotFound", 60)
        kube.apply(of("Cluster", "side", **spec))
        for kind, name in named:
            kube.ready(kind, name, READY_SECONDS_MAX)


@attack(
    "all is deleted and created again as a backup has it, with owners that are no more: records and all are there"
)
def created_again_as_by_velero(field: Field) -> None:
    kube = Kube(ASIDE)
    kinds = ("service", "configmap", "serviceaccount", "poddisruptionbudget", "statefulset", "deployment")
    with field.side_cluster("side"):
        kube.apply(of("Topic", "kept", cluster="side", partitions=2, replicas=1))
        kube.ready("topic", "kept", READY_SECONDS_MAX)
        produced(kube, VALUES)
        saved = [
            as_saved(one)
            for kind in ("cluster.odradek.io", "topic.odradek.io", *kinds)
            for one in json.loads(kube.run("get", kind, "--output", "json"))["items"]
            if one["metadata"]["name"] not in ("kube-root-ca.crt", "default")
        ]
        kube.run("delete", "topic.odradek.io,cluster.odradek.io", "--all", "--wait=false")
        field.until(
            lambda: not kube.items("pods") and not kube.items("statefulset"), "pods and workloads are gone"
        )
        kube.run("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": saved}))
        wait_seconds(5)
        kube.ready("cluster", "side", READY_SECONDS_MAX)
        kube.ready("topic", "kept", READY_SECONDS_MAX)
        held = consumed(kube)
        assert held == sorted(VALUES), f"{len(held)} of {len(VALUES)} records"


def as_saved(body: Resource) -> Resource:
    """What a backup keeps: no identity, no version, no addresses; labels of its own, and owners as they were."""
    about = body["metadata"]
    kept = {
        name: about[name] for name in ("name", "labels", "annotations", "ownerReferences") if name in about
    }
    kept["labels"] = {**kept.get("labels", {}), "velero.io/restore-name": "attack"}
    rest = {name: value for name, value in body.items() if name not in ("metadata", "status")}
    if body["kind"] == "Service":
        rest["spec"] = {
            name: value
            for name, value in body["spec"].items()
            if name not in ("clusterIP", "clusterIPs") or value in ("None", ["None"])
        }
    return {**rest, "metadata": kept}


@attack("a Cluster with deletionPolicy Delete goes with Topics, Users and groups: nothing of it is left")
def nothing_is_left(field: Field) -> None:
    kube = Kube(ASIDE)
    with field.side_cluster("side", deletionPolicy="Delete", **LOGINS):
        kube.apply(of("User", "stays", cluster="side"), of("Topic", "goes", cluster="side", partitions=1))
        kube.ready("user", "stays", READY_SECONDS_MAX)
        kube.run("delete", "cluster.odradek.io,user.odradek.io,topic.odradek.io", "--all", "--wait=false")
        kinds = ("pods", "statefulsets", "deployments", "services", "pvc", "poddisruptionbudgets")
        for kind in kinds:
            field.until(lambda: not kube.items(kind), f"no {kind} are left", 120)  # noqa: B023
        left = [
            f"{kind} {one['metadata']['name']}"
            for kind in ("secrets", "configmaps", "serviceaccounts")
            for one in kube.items(kind)
            if one["metadata"]["name"] not in ("kube-root-ca.crt", "default")
        ]
        assert not left, f"left behind: {left}"
