"""The brokers that may be given new replicas: all that the cluster knows, without the cordoned ones (KIP-1066).

A cordon is a dynamic setting of the broker, `cordoned.log.dirs=*`. So every user with the right to change settings can
set it, also for a broker that is down. The controller reads it from the image at each placement. A cordon of some
directories is the broker's own: it makes new logs in the others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

from odradek.foundation.named_tuple import NamedTuple
from odradek.metadata.image.image import ClusterImage, ResourceKind

CORDON_KEY: Final = "cordoned.log.dirs"
EVERY_DIRECTORY: Final = "*"


class PlaceableBrokers(NamedTuple):
    """Racks by broker. Those in `active` are alive and not stopping; those in `away` are known and are not.

    `machines` are the names of machines, without the brokers that have none.
    """

    active: Mapping[int, str | None]
    away: Mapping[int, str | None]
    machines: Mapping[int, str] = MappingProxyType({})

    @property
    def racks(self) -> dict[int, str | None]:
        """The racks of all of them."""
        return {**self.active, **self.away}


def is_cordoned(image: ClusterImage, broker_id: int) -> bool:
    """Whether the broker gets no new replicas."""
    return image.config(ResourceKind.BROKER, str(broker_id)).get(CORDON_KEY) == EVERY_DIRECTORY


def find_cordoned_directories(image: ClusterImage, broker_id: int) -> frozenset[str]:
    """The log directories in which the broker makes no new logs, or `*` alone for all."""
    text = image.config(ResourceKind.BROKER, str(broker_id)).get(CORDON_KEY, "")
    return frozenset(one.strip() for one in text.split(",") if one.strip())


def placeable(image: ClusterImage, *, eligible: Collection[int] | None = None) -> PlaceableBrokers:
    """The brokers that may receive new replicas. `eligible` are alive and not stopping, by default all that are alive.

    A stopping broker counts as away. Kafka leaves it out until it has stopped, and refuses what needs it until then.
    """
    active: dict[int, str | None] = {}
    away: dict[int, str | None] = {}
    machines: dict[int, str] = {}
    for broker in {**image.registrations, **image.brokers}.values():
        if is_cordoned(image, broker.id):
            continue
        is_active = broker.id in image.brokers and (eligible is None or broker.id in eligible)
        (active if is_active else away)[broker.id] = broker.rack
        if broker.machine is not None:
            machines[broker.id] = broker.machine
    return PlaceableBrokers(active, away, machines)
