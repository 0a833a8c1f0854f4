"""The facts of a broker that each of its replicas needs: its id, the time, and which brokers are live.

One object for all partitions, so that each holds one reference instead of many.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from odradek.broker.replication.acknowledgements import Acknowledgements
from odradek.broker.replication.confirmation import NEVER
from odradek.broker.replication.flusher import Flusher
from odradek.broker.replication.throttles import Throttle, Throttles
from odradek.foundation.clock import Clock
from odradek.foundation.limits import ACKNOWLEDGEMENTS_WAITING_MAX, LEADERSHIP_CONFIRMED_SECONDS_MAX
from odradek.foundation.settings.broker_settings import Settings
from odradek.metadata.image.image import BrokerImage, ImageHolder


def _nobody_follows(broker_id: int, topic_id: bytes, partition: int, leader_epoch: int) -> float:
    return NEVER


def _always() -> bool:
    """Where one broker is the whole cluster no other broker can lead."""
    return True


async def _at_once() -> bool:
    return True


class ReplicaContext:
    """A broker of a cluster sets what is known of leaders: `is_leadership_certain`, `confirm_leadership`,
    `is_registry_silent` and `followed_as_of`.
    """

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
        self.is_leadership_certain: Callable[[], bool] = _always
        """Whether the controller has lately confirmed what this broker leads; a call starts a check."""
        self.confirm_leadership: Callable[[], Awaitable[bool]] = _at_once
        """Waits for a limited time until the controller has confirmed it. Returns whether it has."""
        self.is_registry_silent = False
        """Whether the registry has not answered for a session's timeout: each leader then has to be confirmed."""
        self.followed_as_of: Callable[[int, bytes, int, int], float] = _nobody_follows
        """(broker id, topic id, partition, leader epoch) -> as of when that broker followed this one there."""
        self.pushes_high_watermark = current_settings().replica_selector_class is not None
        """Whether a new high watermark answers followers' fetches at once: consumers read from them (KIP-392).

        As in Kafka, it otherwise goes with the next records, or when a fetch has waited long enough.
        """
        self.now: Callable[[], float] = clock.monotonic_seconds
        """Gives monotonic seconds."""
        self._images = images
        self._clock = clock
        self._current_settings = current_settings
        self.throttles = Throttles(
            leader=Throttle(lambda: current_settings().leader_replication_throttled_rate, now=self.now),
            follower=Throttle(lambda: current_settings().follower_replication_throttled_rate, now=self.now),
        )

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        return self._clock.wall_ms()

    @property
    def lag_seconds_max(self) -> float:
        """replica.lag.time.max.ms."""
        return self._current_settings().replica_lag_time_max_ms / 1000

    @property
    def confirmed_seconds_max(self) -> float:
        """The life of a confirmation: an idle follower's fetch waits here for replica.fetch.wait.max.ms."""
        wait_seconds: float = self._current_settings().replica_fetch_wait_max_ms / 1000
        return LEADERSHIP_CONFIRMED_SECONDS_MAX + wait_seconds

    @property
    def brokers(self) -> Mapping[int, BrokerImage]:
        """The live brokers, by id."""
        return self._images.current.brokers

    def is_eligible(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether a follower may join an in-sync set, as far as this broker knows; the controller decides."""
        broker = self._images.current.brokers.get(broker_id)
        return broker is not None and broker_epoch in (-1, broker.epoch)
