"""Finalized features: what a new cluster has, how UpdateFeatures changes them, and what clients read."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.foundation.errors import InvalidUpdateVersion
from odradek.metadata.controller.feature_plans import FeatureUpdate, UpgradeType, plan_features
from odradek.metadata.image import paths
from odradek.metadata.image.features import FinalizedFeatures
from odradek.metadata.image.image import BrokerImage, ClusterImage
from odradek.wire.protocol.api import ApiKey
from tests.support.memory_registry import MemoryRegistry, MemoryStore
from tests.support.whole_broker import WholeBroker

UP, SAFE, UNSAFE = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE


def image(level: int, *, broker_max: int = 2) -> ClusterImage:
    broker = BrokerImage(id=1, endpoints={}, rack=None, epoch=1, features={"transaction.version": broker_max})
    levels = {"transaction.version": level} if level else {}
    return ClusterImage(brokers={1: broker}, features=FinalizedFeatures(4, levels))


@pytest.mark.parametrize(("before", "wanted", "kind"), [(0, 2, UP), (1, 2, UP), (2, 1, SAFE), (2, 0, UNSAFE)])
def test_a_level_changes_and_the_epoch_grows(before: int, wanted: int, kind: UpgradeType) -> None:
    after = plan_features(image(before), [FeatureUpdate("transaction.version", wanted, kind)])
    assert (after.level("transaction.version"), after.epoch) == (wanted, 5)


def test_the_same_level_changes_nothing() -> None:
    before = image(2)
    same = [FeatureUpdate("transaction.version", 2, UP), FeatureUpdate("group.version", 1, UP)]
    assert plan_features(before, same) is before.features


@pytest.mark.parametrize(
    ("name", "level", "kind", "why"),
    [
        ("transaction.version", 3, UP, "only supports versions 0-2"),
        ("transaction.version", -1, UP, "cannot be less than 0"),
        ("transaction.version", 0, UP, "either safe or unsafe downgrade"),
        ("transaction.version", 2, SAFE, "Can't downgrade to a newer version"),
        ("transaction.version", 2, 0, "does not support the given upgrade type"),
        ("group.version", 0, SAFE, "has it at 1"),
        ("metadata.version", 5, UP, "does not support this feature"),
    ],
)
def test_a_level_is_refused(name: str, level: int, kind: int, why: str) -> None:
    with pytest.raises(InvalidUpdateVersion, match=why):
        plan_features(image(1), [FeatureUpdate(name, level, kind)])


def test_a_level_waits_for_the_last_broker_of_a_rolling_upgrade() -> None:
    with pytest.raises(InvalidUpdateVersion, match="Broker 1 only supports versions 0-0"):
        plan_features(image(0, broker_max=0), [FeatureUpdate("transaction.version", 2, UP)])


# What a new cluster has besides.
OTHERS = {"group.version": 1, "share.version": 2, "streams.version": 1}


async def features(broker: WholeBroker, version: int = 4) -> tuple[int, dict[str, int]]:
    answer = await broker.ask(
        ApiKey.API_VERSIONS, version, client_software_name="t", client_software_version="1"
    )
    return answer.finalized_features_epoch, {
        row.name: row.max_version_level for row in answer.finalized_features
    }


async def update(broker: WholeBroker, version: int, level: int, **fields: Any) -> Any:
    row = {"feature": "transaction.version", "max_version_level": level, **fields}
    return await broker.ask(ApiKey.UPDATE_FEATURES, version, feature_updates=[row])


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_clients_read_a_changed_level_with_a_higher_epoch(version: int) -> None:
    broker = await WholeBroker.start()
    assert await features(broker) == (1, {**OTHERS, "transaction.version": 2})
    down = {"allow_downgrade": True} if version == 0 else {"upgrade_type": 2}
    answer = await update(broker, version, 1, **down)
    assert answer.error_code == 0
    if version < 2:
        assert [(row.feature, row.error_code) for row in answer.results] == [("transaction.version", 0)]
    assert await features(broker) == (2, {**OTHERS, "transaction.version": 1})
    refused = await update(broker, version, 0)
    assert refused.error_code == 95
    assert "downgrade" in refused.error_message
    assert (await update(broker, version, 0, **down)).error_code == 0
    assert await features(broker, 3) == (3, OTHERS)
    assert (await update(broker, version, 2)).error_code == 0
    broker = await broker.restart()
    assert await features(broker) == (4, {**OTHERS, "transaction.version": 2})


async def test_a_cluster_of_an_older_release_begins_at_level_0() -> None:
    registry = MemoryRegistry()
    broker = await WholeBroker.start(registry=registry)
    await broker.broker.stop()
    store = MemoryStore(registry)
    await store.delete(paths.FEATURES)
    await store.close()
    broker = await WholeBroker.start(registry=registry, disk=broker.disk)
    assert await features(broker) == (0, {"group.version": 1})
    assert (await update(broker, 2, 2)).error_code == 0
    assert await features(broker) == (1, {"group.version": 1, "transaction.version": 2})
