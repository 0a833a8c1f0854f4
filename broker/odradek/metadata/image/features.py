"""Features of the cluster (KIP-584): which levels this release supports, and which one is finalized.

A finalized level counts for all brokers. It is raised when every broker of a rolling upgrade supports it, and clients
read it with ApiVersions. They take it only from an answer with a higher epoch than any before. A new cluster finalizes
the highest levels. A registry of an older release has none, which is level 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from odradek.foundation.named_tuple import NamedTuple

GROUP_VERSION: Final = "group.version"
SHARE_VERSION: Final = "share.version"
STREAMS_VERSION: Final = "streams.version"
TRANSACTION_VERSION: Final = "transaction.version"

# The lowest and the highest level of each feature.
SUPPORTED: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {GROUP_VERSION: (0, 1), SHARE_VERSION: (0, 2), STREAMS_VERSION: (0, 1), TRANSACTION_VERSION: (0, 2)}
)
# Every release has served the consumer group protocol: its level never changes.
FIXED: Final[Mapping[str, int]] = MappingProxyType({GROUP_VERSION: 1})
# What a new cluster begins with.
OF_NEW_CLUSTERS: Final[Mapping[str, int]] = MappingProxyType(
    {SHARE_VERSION: 2, STREAMS_VERSION: 1, TRANSACTION_VERSION: 2}
)


def highest_levels() -> dict[str, int]:
    """The highest levels that a broker of this release supports, by name."""
    return {name: highest for name, (_, highest) in SUPPORTED.items()}


class FinalizedFeatures(NamedTuple):
    """The levels above 0 by name. `epoch` grows with each change; 0 stands for none so far."""

    epoch: int = 0
    levels: Mapping[str, int] = MappingProxyType({})

    def level(self, name: str) -> int:
        return FIXED.get(name) or self.levels.get(name, 0)

    def with_level(self, name: str, level: int) -> FinalizedFeatures:
        """The next epoch, in which `name` has this level."""
        levels = {one: at for one, at in {**self.levels, name: level}.items() if at > 0}
        return FinalizedFeatures(self.epoch + 1, levels)
