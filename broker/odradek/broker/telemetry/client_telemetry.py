"""What clients are asked to push, and what becomes of it: the rules of Kafka's `ClientMetricsManager`.

A client asks for its subscription and gets an id for its life. Once in each interval it pushes, with the number of the
subscription that it has. A changed subscription has another number: the push is refused, and the client asks again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING, Final
from uuid import UUID

from odradek.broker.telemetry.instances import ClientInstance, ClientInstances, instance_id_text
from odradek.broker.telemetry.series import ClientLabels, PushedMetrics, PushedSeries
from odradek.broker.telemetry.subscriptions import MetricsSubscription, subscriptions_of
from odradek.foundation.errors import (
    InvalidRequest,
    SettingError,
    TelemetryTooLarge,
    ThrottlingQuotaExceeded,
    UnknownSubscriptionId,
    UnsupportedCompressionType,
)
from odradek.metadata.image.changes import config_changes
from odradek.metadata.image.image import ClusterImage, ResourceKind
from odradek.wire.records.compression import Compression

if TYPE_CHECKING:
    from odradek.metadata.image.image import ImageHolder

logger = logging.getLogger(__name__)

# In the order in which clients are to prefer them, as Kafka's brokers answer.
ACCEPTED_COMPRESSIONS: Final = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)
_COMPRESSIONS: Final = frozenset(int(one) for one in Compression)
# Kafka's reserved ids: none, and that of its metadata log.
_RESERVED: Final = frozenset((UUID(int=0), UUID(int=1)))


class ClientTelemetry:
    """The telemetry of one broker. `bytes_max` bounds a push, compressed and as a whole; `now` is in seconds."""

    def __init__(self, images: ImageHolder, *, bytes_max: int, now: Callable[[], float], rng: Random) -> None:
        self._images = images
        self._now = now
        self._rng = rng
        self.bytes_max: Final = bytes_max
        self.instances = ClientInstances(now)
        self.series = PushedSeries()
        self._version = 0
        self._subscriptions: list[MetricsSubscription] | None = None
        self.pushes = 0
        self.throttled = 0
        """Requests that came before their time."""
        self.unknown_subscriptions = 0
        """Pushes for a subscription that has changed."""
        self.refused = 0
        """Pushes that could not be read."""
        self.stop: Callable[[], None] = images.subscribe(self._follow)

    # --- requests ----------------------------------------------------------------------------------------------------

    def subscribe(self, instance_id: UUID | None, attributes: Mapping[str, str | None]) -> ClientInstance:
        """The instance with its subscription; a client without an id gets one. Raises ThrottlingQuotaExceeded."""
        instance = self._find(self._new_id() if instance_id is None else instance_id, attributes)
        if not instance.may_get(self._now()) and not instance.retries_at_once:
            self.throttled += 1
            raise ThrottlingQuotaExceeded(
                "The subscription was asked for again before the interval had passed."
            )
        instance.retries_at_once = False
        return instance

    def admit(
        self,
        instance_id: UUID | None,
        attributes: Mapping[str, str | None],
        *,
        subscription_id: int,
        compression: int,
        size: int,
        is_terminating: bool,
    ) -> ClientInstance:
        """The instance that may push now. Raises the error that Kafka refuses such a push with."""
        if instance_id is None or instance_id in _RESERVED:
            raise InvalidRequest("A push needs the client instance id that the broker has given.")
        instance = self._find(instance_id, attributes)
        instance.retries_at_once = False
        has_ended, instance.is_terminating = instance.is_terminating, is_terminating
        if has_ended:
            raise InvalidRequest("The client has sent its last push before this one.")
        if not instance.may_push(self._now()) and not is_terminating:
            self.throttled += 1
            raise ThrottlingQuotaExceeded("Metrics were pushed again before the interval had passed.")
        if subscription_id != instance.subscription_id:
            self.unknown_subscriptions += 1
            instance.retries_at_once = True
            raise UnknownSubscriptionId("The subscription has changed; ask for it again.")
        if compression not in _COMPRESSIONS:
            instance.retries_at_once = True
            raise UnsupportedCompressionType(f"There is no compression type {compression}; 0 to 4 are known.")
        if size > self.bytes_max:
            raise TelemetryTooLarge(
                f"{size} bytes of metrics are more than telemetry.max.bytes={self.bytes_max}."
            )
        return instance

    def take(self, instance: ClientInstance, labels: ClientLabels, pushed: PushedMetrics) -> None:
        """Make series of what was pushed."""
        now = self._now()
        self.pushes += 1
        self.series.forget_silent(now)
        self.series.take(instance.id, labels, pushed, expires_at=now + instance.seconds_remembered)

    def forget_silent(self) -> None:
        """Drop what clients have pushed that were silent for too long."""
        now = self._now()
        self.instances.forget_silent(now)
        self.series.forget_silent(now)

    def labels_of(self, instance: ClientInstance) -> ClientLabels:
        attributes = instance.attributes
        return ClientLabels(
            attributes["client_id"] or "",
            instance_id_text(instance.id),
            attributes["client_software_name"] or "",
            attributes["client_software_version"] or "",
            attributes["client_source_address"] or "",
        )

    # --- instances ---------------------------------------------------------------------------------------------------

    def _find(self, instance_id: UUID, attributes: Mapping[str, str | None]) -> ClientInstance:
        """The instance as the subscriptions of now have it, remembered from now on."""
        instance = self.instances.find(instance_id)
        if instance is None or instance.version < self._version:
            known = {**attributes, "client_instance_id": instance_id_text(instance_id)}
            instance = ClientInstance(
                instance_id,
                known if instance is None else instance.attributes,
                self._current_subscriptions(),
                version=self._version,
            )
        self.instances.keep(instance)
        return instance

    def _new_id(self) -> UUID:
        while True:
            made = UUID(int=self._rng.getrandbits(128), version=4)
            # Kafka's tools take an argument that begins with a dash for an option.
            if made not in self.instances and not instance_id_text(made).startswith("-"):
                return made

    def _current_subscriptions(self) -> list[MetricsSubscription]:
        if self._subscriptions is None:
            try:
                self._subscriptions = subscriptions_of(self._images.current)
            except SettingError as error:
                # They were valid when they were set.
                logger.error("subscriptions of clients' metrics are ignored: %s", error)
                self._subscriptions = []
        return self._subscriptions

    def _follow(self, old: ClusterImage, new: ClusterImage) -> None:
        if config_changes(old, new, kind=ResourceKind.CLIENT_METRICS):
            self._version += 1
            self._subscriptions = None
