"""Resources that are deleted in the wrong order."""

from __future__ import annotations

from typing import Any

from e2e.attack.attacks import attack
from e2e.attack.field import ASIDE, READY_SECONDS_MAX, Field, of
from e2e.kube import Kube

LOGINS: dict[str, Any] = {
    "internalListener": {"authentication": {"type": "scram-sha-512"}},
    "authorization": {},
}
RIGHTS = [{"resource": {"type": "topic", "name": "kept"}, "operations": ["Read", "Write", "Describe"]}]


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
