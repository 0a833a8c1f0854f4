"""The clients that push metrics, by the id that each got from a broker, and what each of them is asked for.

As Kafka's `ClientMetricsManager` has them: their number is bounded, and one that has been silent for three of its
intervals is forgotten. A client that is forgotten gets the same subscription again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from odradek.foundation.telemetry_limits import (
    TELEMETRY_INSTANCE_SECONDS_MIN,
    TELEMETRY_INSTANCES_MAX,
    TELEMETRY_INTERVALS_REMEMBERED,
    TELEMETRY_SWEEP_SECONDS,
)
from odradek.metadata.image.nodes import topic_id_text
from odradek.wire.records.checksum import crc32c

if TYPE_CHECKING:
    from uuid import UUID

    from odradek.broker.telemetry.subscriptions import MetricsSubscription

ALL_METRICS: Final = "*"
INTERVAL_MS_DEFAULT: Final = 300_000
_NEVER: Final = float("-inf")
_INT32: Final = 1 << 32


class ClientInstance:
    """One client. `attributes` are what subscriptions match, by Kafka's names."""

    __slots__ = (
        "attributes",
        "expires_at",
        "id",
        "is_terminating",
        "last_get_at",
        "last_push_at",
        "metrics",
        "push_interval_ms",
        "retries_at_once",
        "subscription_id",
        "version",
    )

    def __init__(
        self,
        instance_id: UUID,
        attributes: Mapping[str, str | None],
        subscriptions: Iterable[MetricsSubscription],
        *,
        version: int,
    ) -> None:
        matching = [one for one in subscriptions if one.matches(attributes)]
        metrics = {metric for one in matching for metric in one.metrics}
        self.id = instance_id
        self.attributes = attributes
        self.version = version
        """That of the subscriptions which it was made of."""
        self.metrics = (ALL_METRICS,) if ALL_METRICS in metrics else tuple(sorted(metrics))
        self.push_interval_ms = min([INTERVAL_MS_DEFAULT, *(one.interval_ms for one in matching)])
        self.subscription_id = _subscription_id(self.metrics, self.push_interval_ms, instance_id)
        self.last_get_at = _NEVER
        self.last_push_at = _NEVER
        self.is_terminating = False
        self.retries_at_once = False
        """Whether its last request was refused for a reason that another subscription removes."""
        self.expires_at = 0.0

    @property
    def seconds_remembered(self) -> float:
        """How long it may be silent."""
        return max(
            TELEMETRY_INSTANCE_SECONDS_MIN, TELEMETRY_INTERVALS_REMEMBERED * self.push_interval_ms / 1000
        )

    def may_get(self, now: float) -> bool:
        """Whether it may ask for its subscription: once in an interval."""
        if (now - max(self.last_get_at, self.last_push_at)) * 1000 < self.push_interval_ms:
            return False
        self.last_get_at = now
        return True

    def may_push(self, now: float) -> bool:
        """Whether it may push: once in an interval, and at once after it asked.

        Clients begin at a random moment of their first interval, so that not all push at the same time.
        """
        if self.last_get_at <= self.last_push_at and (now - self.last_push_at) * 1000 < self.push_interval_ms:
            return False
        self.last_push_at = now
        return True


class ClientInstances:
    """Those that this broker remembers, in the order of their last request. `now` is in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._instances: OrderedDict[UUID, ClientInstance] = OrderedDict()
        self._next_sweep_at = 0.0
        self.evicted = 0
        """Those that went for others."""

    def __len__(self) -> int:
        return len(self._instances)

    def __contains__(self, instance_id: UUID) -> bool:
        return instance_id in self._instances

    def find(self, instance_id: UUID) -> ClientInstance | None:
        """The instance, unless it was silent for too long."""
        instance = self._instances.get(instance_id)
        if instance is not None and instance.expires_at <= self._now():
            del self._instances[instance_id]
            return None
        return instance

    def keep(self, instance: ClientInstance) -> None:
        """Remember it from now on; for a new one another goes where there are too many."""
        now = self._now()
        if now >= self._next_sweep_at:
            self.forget_silent(now)
        instance.expires_at = now + instance.seconds_remembered
        self._instances[instance.id] = instance
        self._instances.move_to_end(instance.id)
        while len(self._instances) > TELEMETRY_INSTANCES_MAX:
            self._instances.popitem(last=False)
            self.evicted += 1

    def forget(self, instance_id: UUID) -> None:
        self._instances.pop(instance_id, None)

    def forget_silent(self, now: float) -> None:
        """Drop those that were silent for too long."""
        self._next_sweep_at = now + TELEMETRY_SWEEP_SECONDS
        for instance_id in [one for one, instance in self._instances.items() if instance.expires_at <= now]:
            del self._instances[instance_id]


def instance_id_text(instance_id: UUID) -> str:
    """The id as Kafka prints it, and as subscriptions match it."""
    return topic_id_text(instance_id)


def _subscription_id(metrics: Iterable[str], interval_ms: int, instance_id: UUID) -> int:
    """A number of 32 bits that differs where the subscription does: a checksum of it and of the client's id."""
    high, low = instance_id.int >> 64, instance_id.int & (1 << 64) - 1
    mixed = high ^ low
    of_instance = (mixed >> 32 ^ mixed) & (_INT32 - 1)
    number = crc32c(f"[{', '.join(metrics)}]{interval_ms}".encode()) ^ of_instance
    return number - _INT32 if number >= _INT32 // 2 else number
