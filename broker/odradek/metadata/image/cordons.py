"""Cordoned brokers, which get no new replicas (KIP-1066), as before their removal.

A cordon is a dynamic setting of the broker, `cordoned.log.dirs=*`. So every user with the right to change settings can
set it, also for a broker that is down. The controller reads it from the image at each placement.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.metadata.image.image import ClusterImage, ResourceKind

CORDON_KEY: Final = "cordoned.log.dirs"
EVERY_DIRECTORY: Final = "*"


def is_cordoned(image: ClusterImage, broker_id: int) -> bool:
    """Whether the broker gets no new replicas."""
    return image.config(ResourceKind.BROKER, str(broker_id)).get(CORDON_KEY) == EVERY_DIRECTORY


def placeable(image: ClusterImage) -> Mapping[int, str | None]:
    """The racks of the live brokers that may receive new replicas, by broker."""
    return {broker.id: broker.rack for broker in image.brokers.values() if not is_cordoned(image, broker.id)}
