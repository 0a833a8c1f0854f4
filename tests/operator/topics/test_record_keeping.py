"""The record of what goes with its resource, apart from the rounds: what is deleted, and on whose word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from odradek_operator.gateways.kubernetes import CLUSTERS, TOPICS, metadata
from odradek_operator.reconcilers.batch_reconciler import Batch
from odradek_operator.reconcilers.declared import DeclaredRecord, DeclaredThing, change_record
from odradek_operator.reconcilers.record_keeping import KnownEntries, RecordKeeper
from tests.operator.support.world import OperatorWorld


@pytest.mark.parametrize("is_there", [True, False])
async def test_a_list_that_is_older_than_the_record_deletes_nothing(is_there: bool) -> None:
    """Another operator has recorded a Topic since this one has listed them."""
    world = OperatorWorld()
    world.restart_operator()
    cluster = world.create(CLUSTERS, "demo")
    uid = str(metadata(world.create(TOPICS, "orders", {"cluster": "demo"}))["uid"])
    if not is_there:
        world.delete(TOPICS, "orders")
    entry = DeclaredThing(
        uid=uid, resource="orders", thing="orders", cluster_uid=str(metadata(cluster)["uid"])
    )
    record = DeclaredRecord(namespace=world.namespace, cluster="demo", api=TOPICS)
    await change_record(world.kubernetes, record, {uid: entry}, cluster=cluster)
    removed: list[str] = []

    async def remove(entries: Sequence[DeclaredThing]) -> Mapping[str, str]:
        removed.extend(one.thing for one in entries)
        return {}

    keeper: RecordKeeper[Any] = RecordKeeper(
        world.environment,
        Batch(namespace=world.namespace, cluster="demo", bodies=()),
        "demo",
        api=TOPICS,
        known=KnownEntries(),
        get_name=lambda work: work.desired.topic,
        get_id=lambda work: None,
        fail=lambda work, failure: None,
    )
    await keeper.read()
    await keeper.settle(remove, cluster)
    assert removed == ([] if is_there else ["orders"])
