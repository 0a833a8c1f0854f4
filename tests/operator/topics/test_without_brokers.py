"""Topics that no broker is asked about: their Cluster is not there, or the resource cannot be read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from odradek_operator.foundation.keys import Key
from odradek_operator.foundation.metrics import ConditionBook
from odradek_operator.gateways.kubernetes import TOPICS, Json, KubernetesError
from odradek_operator.reconcilers.reconciler import CLEANUP_FINALIZER, Environment
from odradek_operator.reconcilers.topic.reconciler import TopicReconciler
from tests.operator.support.kubernetes import MemoryKubernetes
from tests.support.loop import run

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Namespace:
    """Topics without a Cluster, and their reconciler."""

    def __init__(self) -> None:
        self.kubernetes = MemoryKubernetes()
        self.woken: list[str] = []
        environment = Environment(
            kubernetes=self.kubernetes,
            conditions=ConditionBook(),
            wake=lambda key, after_seconds=0.0: self.woken.append(key.name),
            now=lambda: NOW,
        )
        self.reconciler = TopicReconciler(
            environment, brokers=cast(Any, None), bootstrap=lambda _: "not asked"
        )

    def make(self, name: str, /, **spec: Any) -> Json:
        return self.kubernetes.objects.create(
            {
                "apiVersion": "odradek.io/v1",
                "kind": "Topic",
                "metadata": {"name": name, "namespace": "shop", "finalizers": [CLEANUP_FINALIZER]},
                "spec": {"cluster": "main", "deletionPolicy": "Delete", **spec},
            }
        )

    def reconcile(self, name: str) -> float | None:
        return run(self.reconciler.reconcile(Key("Topic", "shop", name)))


def test_deletion_reports_another_owner_without_a_cluster() -> None:
    shop = Namespace()
    body = shop.make("orders")
    shop.make("orders-too", name="orders")
    shop.kubernetes.objects.set_status(
        TOPICS, "shop", "orders", {"ownerUid": body["metadata"]["uid"]}, uid=None
    )
    shop.kubernetes.objects.delete(TOPICS, "shop", "orders", uid=None, orphan=False)
    shop.reconcile("orders")
    assert shop.kubernetes.objects.get(TOPICS, "shop", "orders") is None
    (event,) = [one for one in shop.kubernetes.events if one.reason == "TopicKept"]
    assert "another Topic names it too" in event.message


def test_an_invalid_topic_whose_status_cannot_be_written_is_tried_again() -> None:
    shop = Namespace()
    shop.make("bad", partitions=-1)
    shop.make("also-bad", partitions=-1)

    def refuse(what: str, kind: str, name: str) -> None:
        raise KubernetesError("not now")

    shop.kubernetes.before_write = refuse
    with pytest.raises(KubernetesError):
        shop.reconcile("bad")
