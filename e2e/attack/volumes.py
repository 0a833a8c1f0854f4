"""Claims and volumes that are deleted, changed by hand, or brought from elsewhere."""

from __future__ import annotations

from e2e.attack.attacks import attack
from e2e.attack.field import ASIDE, ELSEWHERE, READY_SECONDS_MAX, Field, of, small_cluster, wait_seconds
from e2e.attack.pods import all_replaced
from e2e.kube import Kube

VALUES = [f"kept-{number}" for number in range(300)]
BOOTSTRAP = "side-bootstrap:9092"


def produced(kube: Kube, values: list[str], topic: str = "kept") -> None:
    """Write records by the broker of a Cluster `side` without logins."""
    command = ("odradek", "produce", topic, "--bootstrap", BOOTSTRAP)
    kube.inside("side-broker-0", *command, stdin="".join(f"{one}\n" for one in values))


def consumed(kube: Kube, topic: str = "kept") -> list[str]:
    command = ("odradek", "consume", topic, "--from-beginning", "--bootstrap", BOOTSTRAP)
    return sorted(kube.inside("side-broker-0", *command).split())


@attack(
    "a broker's claim is deleted and all restart: the broker with the only replica is left alone, and says why"
)
def claim_deleted_before_a_roll(field: Field) -> None:
    number = field.chance.randrange(3)
    pod, topic = f"demo-broker-{number}", f"alone-{field.word()}"
    field.kube.apply(of("Topic", topic, cluster="demo", partitions=3, replicas=1, deletionPolicy="Delete"))
    field.kube.ready("topic", topic, 60)
    field.as_admin("produce", topic, stdin="".join(f"{one}\n" for one in VALUES))
    before = field.pods("broker")
    field.kube.run("delete", "pvc", f"data-{pod}", "--wait=false")
    said = field.condition(field.kube, "cluster", "demo", "Volumes", "AtRisk")
    assert f"data-{pod}" in said, said
    field.kube.run("annotate", "cluster", "demo", f"odradek.io/restart={field.word()}", "--overwrite")
    all_replaced(field, {name: uid for name, uid in before.items() if name != pod})
    wait_seconds(10)
    assert field.pods("broker")[pod] == before[pod], f"{pod} was restarted, and its volume is gone"
    assert f"data-{pod}" in field.events(field.kube), "a Warning names the claim"
    # As the page says: the records go elsewhere, and then a new volume loses nothing.
    field.kube.patch("topic", topic, {"spec": {"replicas": 3}})
    field.kube.run("annotate", "pod", pod, "odradek.io/replace=true", "--overwrite")
    all_replaced(field, {pod: before[pod]})
    field.whole()
    held = field.as_admin("consume", topic, "--from-beginning").split()
    assert sorted(held) == sorted(VALUES), f"{len(held)} of {len(VALUES)} records"
    field.kube.delete("topic", topic)


@attack("a broker's claim is made larger by hand: no pod is touched, and the operator goes on")
def claim_resized_by_hand(field: Field) -> None:
    before = field.pods()
    pod = f"demo-broker-{field.chance.randrange(3)}"
    claim = field.kube.get("pvc", f"data-{pod}") or {}
    bigger = {"spec": {"resources": {"requests": {"storage": "11Gi"}}}}
    field.kube.patch("pvc", claim["metadata"]["name"], bigger)
    wait_seconds(10)
    field.until(lambda: field.is_ready(field.kube, "cluster", "demo"), "the Cluster is Ready")
    assert field.pods() == before


@attack(
    "a namespace is deleted, and its volumes are restored in another one: an error says which path is meant"
)
def volumes_restored_elsewhere(field: Field) -> None:
    kube, other = Kube(ASIDE), Kube(ELSEWHERE)
    try:
        kube.apply(small_cluster("side"), of("Topic", "kept", cluster="side", partitions=2, replicas=1))
        kube.ready("topic", "kept", READY_SECONDS_MAX)
        produced(kube, VALUES)
        volumes = {one["metadata"]["name"]: one["spec"]["volumeName"] for one in kube.items("pvc")}
        kube.delete("namespace", ASIDE, wait=False)
        field.until(lambda: kube.get("namespace", ASIDE) is None, "nothing holds the namespace", 90)
        for claim, volume in volumes.items():
            about = {"name": claim, "namespace": ELSEWHERE, "uid": None, "resourceVersion": None}
            other.patch("pv", volume, {"spec": {"claimRef": about}})
        other.apply(small_cluster("side"))
        said = field.condition(other, "cluster", "side", "Ready", "OtherZookeeperPath", 240)
        assert "spec.zookeeper.path" in said, said
        other.patch("cluster", "side", {"spec": {"zookeeper": {"path": f"/{ASIDE}/side"}}})
        other.ready("cluster", "side", READY_SECONDS_MAX)
        held = consumed(other)
        assert held == sorted(VALUES), f"{len(held)} of {len(VALUES)} records"
    finally:
        kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ASIDE}})
        field.upgrade_operator()
        field.empty(ELSEWHERE)
