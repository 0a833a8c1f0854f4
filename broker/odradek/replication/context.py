"""What every replica of a broker needs to know of its broker: who it is, the time, who else is live.

One object for all partitions, so that each holds one reference instead of six.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from odradek.cluster.image import BrokerImage, ImageHolder
from odradek.foundation.clock import Clock
from odradek.foundation.limits import ACKNOWLEDGEMENTS_WAITING_MAX, LEADERSHIP_CONFIRMED_SECONDS_MAX
from odradek.foundation.settings import Settings
from odradek.replication.acknowledgements import Acknowledgements
from odradek.replication.confirmation import NEVER
from odradek.replication.flushing import Flusher
from odradek.replication.throttles import Throttles

if TYPE_CHECKING:
    from odradek.replication.partition import Partition


def _nobody_is_told(_: Any) -> None:
    """Where one broker is the whole cluster there is nobody to propose to and nobody to fetch from."""


def _nobody_follows(broker_id: int, topic_id: bytes, partition: int, leader_epoch: int) -> float:
    return NEVER


def _always() -> bool:
    """Where one broker is the whole cluster nobody else can lead."""
    return True


class ReplicaContext:
    """`propose`, `role_changed`, `log_start_moved`, `is_sure`, `is_registry_silent`, `followed_as_of` are set by those
    who ask the controller or leaders, or keep followers' sessions.
    """

    __slots__ = (
        "_clock",
        "_current_settings",
        "_images",
        "acknowledgements",
        "broker_id",
        "flusher",
        "followed_as_of",
        "is_registry_silent",
        "is_sure",
        "log_start_moved",
        "propose",
        "role_changed",
        "tells_at_once",
        "throttles",
    )

    def __init__(
        self,
        *,
        broker_id: int,
        images: ImageHolder,
        flusher: Flusher,
        clock: Clock,
        current_settings: Callable[[], Settings],
    ) -> None:
        self.broker_id = broker_id
        self.flusher = flusher
        self.acknowledgements = Acknowledgements(waiting_max=ACKNOWLEDGEMENTS_WAITING_MAX)
        self.propose: Callable[[Partition], None] = _nobody_is_told
        """A partition has a new proposal for its in-sync set."""
        self.role_changed: Callable[[Partition], None] = _nobody_is_told
        """A partition has another leader, another epoch, or is gone."""
        self.is_sure: Callable[[], bool] = _always
        """Whether the controller has lately confirmed what this broker leads; asking makes it confirm."""
        self.is_registry_silent = False
        """Whether the registry has not answered for a session's timeout: then each leader has to be confirmed."""
        self.followed_as_of: Callable[[int, bytes, int, int], float] = _nobody_follows
        """(broker id, topic id, partition, leader epoch) -> as of when that broker followed this one there."""
        self.log_start_moved: Callable[[Any], None] = _nobody_is_told
        """A partition's log starts later than before."""
        self.tells_at_once = current_settings().replica_selector_class is not None
        """Whether followers hear of a new high watermark at once, and not with their next records or when their fetch
        has waited long enough: consumers read from them (KIP-392). As in Kafka, elsewhere it would only cost fetches.
        """
        self._images = images
        self._clock = clock
        self._current_settings = current_settings
        self.throttles = Throttles(
            leader_rate=lambda: current_settings().leader_replication_throttled_rate,
            follower_rate=lambda: current_settings().follower_replication_throttled_rate,
            now=self.now,
        )

    def now(self) -> float:
        """Seconds that never go back."""
        return self._clock.monotonic_seconds()

    @property
    def lag_seconds_max(self) -> float:
        """replica.lag.time.max.ms."""
        return self._current_settings().replica_lag_time_max_ms / 1000

    @property
    def confirmed_seconds_max(self) -> float:
        """How long a confirmation counts: an idle follower's question waits here for replica.fetch.wait.max.ms."""
        wait_seconds: float = self._current_settings().replica_fetch_wait_max_ms / 1000
        return LEADERSHIP_CONFIRMED_SECONDS_MAX + wait_seconds

    @property
    def brokers(self) -> Mapping[int, BrokerImage]:
        """Who is live."""
        return self._images.current.brokers

    def is_eligible(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether a follower may come into an in-sync set, as far as a broker knows; the controller knows better."""
        broker = self._images.current.brokers.get(broker_id)
        return broker is not None and broker_epoch in (-1, broker.epoch)
