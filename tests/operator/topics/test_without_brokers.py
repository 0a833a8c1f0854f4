"""Topics that no broker is asked about: their Cluster is not there, or the resource cannot be read."""

from __future__ import annotations

from typing import Any, cast

import pytest

from odradek_operator.gateways.kubernetes import TOPICS, Json, KubernetesError
from odradek_operator.reconcilers.reconciler import CLEANUP_FINALIZER, Environment
from odradek_operator.reconcilers.rounds import make_reconciler
from odradek_operator.reconcilers.topic.run import TOPIC_KIND
from tests.operator.support.world import OperatorWorld
from tests.support.loop import run


class Namespace(OperatorWorld):
    """Topics without a Cluster, and their reconciler."""

    namespace = "shop"

    def __init__(self) -> None:
        super().__init__()
        self.restart_operator()

    def begin(self, environment: Environment) -> None:
        self.reconciler = make_reconciler(
            environment, TOPIC_KIND, brokers=cast(Any, None), bootstrap=lambda _: "not asked"
        )

    def topic(self, name: str, /, **spec: Any) -> Json:
        wanted = {"cluster": "main", "deletionPolicy": "Delete", **spec}
        return self.create(TOPICS, name, wanted, finalizers=[CLEANUP_FINALIZER])

    def reconcile(self, name: str) -> float | None:
        return run(self.reconciler.reconcile(self.key(TOPICS, name)))


def test_a_deletion_ends_without_a_cluster() -> None:
    shop = Namespace()
    body = shop.topic("orders")
    shop.set_status(TOPICS, "orders", {"ownerUid": body["metadata"]["uid"]})
    shop.delete(TOPICS, "orders")
    assert shop.get(TOPICS, "orders") is not None, "an earlier version has put a finalizer on it"
    shop.reconcile("orders")
    assert shop.get(TOPICS, "orders") is None


def test_an_invalid_topic_whose_status_cannot_be_written_is_tried_again() -> None:
    shop = Namespace()
    shop.topic("bad", partitions=-1)
    shop.topic("also-bad", partitions=-1)

    def refuse(what: str, kind: str, name: str) -> None:
        raise KubernetesError("not now")

    shop.kubernetes.before_write = refuse
    with pytest.raises(KubernetesError):
        shop.reconcile("bad")
