"""What a broker counts of all its share-partitions together, for its metrics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from odradek.broker.shares.acknowledgement import AcknowledgedBatch, AcknowledgeType

# Kafka's names of the types, by their numbers.
ACKNOWLEDGE_TYPE_NAMES: Final = {
    AcknowledgeType.GAP: "Gap",
    AcknowledgeType.ACCEPT: "Accept",
    AcknowledgeType.RELEASE: "Release",
    AcknowledgeType.REJECT: "Reject",
    AcknowledgeType.RENEW: "Renew",
}
LOAD_BOUNDS_SECONDS: Final = (0.01, 0.1, 1.0, 10.0)


class ShareCounts:
    """Plain numbers: a scrape reads them."""

    def __init__(self) -> None:
        self.acknowledged = dict.fromkeys(ACKNOWLEDGE_TYPE_NAMES, 0)
        """Records by the type of their acknowledgement."""
        self.load_buckets = [0] * (len(LOAD_BOUNDS_SECONDS) + 1)
        self.load_seconds = 0.0

    def note_acknowledged(self, batches: Iterable[AcknowledgedBatch]) -> None:
        """These acknowledgements count."""
        for first, last, types in batches:
            if len(types) == 1:
                self.acknowledged[types[0]] += last - first + 1
                continue
            for kind in types:
                self.acknowledged[kind] += 1

    def note_load(self, seconds: float) -> None:
        """A share-partition was loaded."""
        self.load_seconds += seconds
        self.load_buckets[sum(seconds > bound for bound in LOAD_BOUNDS_SECONDS)] += 1
