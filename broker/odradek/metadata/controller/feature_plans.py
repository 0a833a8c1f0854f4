"""UpdateFeatures, planned: which finalized levels follow from a request. Pure.

The refusals and their texts are those of Apache Kafka 4.1's FeatureControlManager. A request changes all of its
features or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from odradek.foundation.errors import InvalidUpdateVersion
from odradek.foundation.named_tuple import NamedTuple
from odradek.metadata.image.features import FIXED, SUPPORTED, FinalizedFeatures
from odradek.metadata.image.image import ClusterImage


class UpgradeType(IntEnum):
    """Whether a level may fall; the numbers are the protocol's."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """One feature of a request, and the level it should have. A level of 0 disables it."""

    name: str
    level: int
    upgrade_type: int


def plan_features(image: ClusterImage, updates: Sequence[FeatureUpdate]) -> FinalizedFeatures:
    """The finalized features after the request; the same object when nothing changes. Raises InvalidUpdateVersion."""
    features = image.features
    for update in updates:
        _check(image, update)
        if features.level(update.name) != update.level:
            features = features.with_level(update.name, update.level)
    if features is not image.features:
        return FinalizedFeatures(image.features.epoch + 1, features.levels)
    return features


def _check(image: ClusterImage, update: FeatureUpdate) -> None:
    name, level = update.name, update.level
    prefix = f"Invalid update version {level} for feature {name}."
    if update.upgrade_type not in list(UpgradeType):
        raise InvalidUpdateVersion(f"{prefix} The controller does not support the given upgrade type.")
    if name not in SUPPORTED:
        raise InvalidUpdateVersion(f"{prefix} The cluster does not support this feature.")
    if level < 0:
        raise InvalidUpdateVersion(f"{prefix} A feature version cannot be less than 0.")
    lowest, highest = SUPPORTED[name]
    if not lowest <= level <= highest:
        raise InvalidUpdateVersion(f"{prefix} The controller only supports versions {lowest}-{highest}")
    current = image.features.level(name)
    if name in FIXED and level != current:
        raise InvalidUpdateVersion(f"{prefix} Every version of this cluster has it at {current}.")
    if level < current and update.upgrade_type == UpgradeType.UPGRADE:
        raise InvalidUpdateVersion(
            f"{prefix} Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
    if level > current and update.upgrade_type != UpgradeType.UPGRADE:
        raise InvalidUpdateVersion(f"{prefix} Can't downgrade to a newer version.")
    for broker in image.brokers.values():
        if name not in FIXED and level > broker.features.get(name, 0):
            raise InvalidUpdateVersion(
                f"{prefix} Broker {broker.id} only supports versions 0-{broker.features.get(name, 0)}; upgrade it "
                "first"
            )
