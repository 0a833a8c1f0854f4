"""A Mirror whose source loses its volume."""

from __future__ import annotations

from e2e.attack.attacks import attack
from e2e.attack.field import ELSEWHERE, READY_SECONDS_MAX, SMALL, Field, of, small_cluster
from e2e.kube import Kube, condition


@attack(
    "a Mirror's source loses its volume, its heartbeats with it: the Mirror goes on with what is written then"
)
def heartbeats_lost(field: Field) -> None:
    kube = Kube(ELSEWHERE)
    source = {"alias": "shop", "cluster": "shop", "topics": ["orders"]}
    try:
        kube.apply(
            small_cluster("shop", deletionPolicy="Delete"),
            small_cluster("side", deletionPolicy="Delete"),
            of("Topic", "orders", cluster="shop", partitions=1, replicas=1),
        )
        for kind, name in (("cluster", "shop"), ("cluster", "side"), ("topic", "orders")):
            kube.ready(kind, name, READY_SECONDS_MAX)
        written(kube, ["before"])
        kube.apply(
            of(
                "Mirror",
                "copy",
                target={"cluster": "side"},
                sources=[source],
                intervalSeconds={"topics": 2},
                resources=SMALL,
            )
        )
        field.until(lambda: "before" in copied(kube), "the Mirror copies")
        before = kube.pods("odradek.io/cluster=shop,app.kubernetes.io/component=broker")[0]["metadata"]["uid"]
        # By force: the broker has the only replica of everything.
        kube.run("delete", "pvc", "data-shop-broker-0", "--wait=false")
        kube.kill_pod("shop-broker-0")
        field.until(
            lambda: (kube.get("pod", "shop-broker-0") or {})["metadata"]["uid"] != before, "another pod"
        )
        kube.ready("cluster", "shop", READY_SECONDS_MAX)
        written(kube, ["after"])
        field.until(lambda: "after" in copied(kube), "the Mirror goes on", 180)
        field.until(
            lambda: condition(kube.get("mirror", "copy") or {}, "Mirroring").get("status") == "True",
            "the Mirror says that all is mirrored",
            120,
        )
    finally:
        field.empty(ELSEWHERE)


def written(kube: Kube, values: list[str]) -> None:
    command = ("odradek", "produce", "orders", "--bootstrap", "shop-bootstrap:9092")
    kube.inside("shop-broker-0", *command, stdin="".join(f"{one}\n" for one in values))


def copied(kube: Kube) -> list[str]:
    command = ("odradek", "consume", "shop.orders", "--from-beginning", "--bootstrap", "side-bootstrap:9092")
    return kube.inside("side-broker-0", *command).split()
