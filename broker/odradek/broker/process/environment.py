"""The objects that the parts of one broker process share from the beginning of its start."""

from __future__ import annotations

import random
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from odradek.foundation.named_tuple import NamedTuple

if TYPE_CHECKING:
    from odradek.foundation.clock import Clock
    from odradek.foundation.settings import Settings
    from odradek.metadata.image.dynamic_settings import DynamicSettings
    from odradek.metadata.image.image import ImageHolder
    from odradek.network.network import Network
    from odradek.storage.files import Disk

# Where a single node keeps its registry, in its first log directory.
REGISTRY_FILE: Final = "registry.sqlite"


class BrokerEnvironment(NamedTuple):
    """`closing` is closed at the stop, or after a start that fails, last entry first."""

    # Not a dataclass: to generate one takes longer than the rest of this module.
    settings: Settings
    broker_id: int
    clock: Clock
    network: Network
    inter_broker_network: Network
    """The network to other brokers, secured as their listeners are."""
    controller_network: Network
    """The network to controllers, secured as theirs are."""
    disk: Disk
    rng: random.Random
    images: ImageHolder
    dynamic_settings: DynamicSettings
    closing: AsyncExitStack
