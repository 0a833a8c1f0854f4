"""Resources that are deleted together, or one before the other."""

from __future__ import annotations

from typing import Any

from e2e.attack.attacks import attack
from e2e.attack.field import ASIDE, READY_SECONDS_MAX, Field, of
from e2e.attack.logins import login_of, said_to
from e2e.kube import Kube

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
        # The authority went with the Cluster, so the former login needs the new one to get as far as its password.
        said = said_to(field, logins["leaves"][0], login[1])
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
