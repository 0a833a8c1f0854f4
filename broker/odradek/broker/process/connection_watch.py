"""Bounds how fast connections come, as the settings and the quotas of addresses ask.

A broker without either pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from odradek.broker.process import late
from odradek.foundation.clock import Clock
from odradek.foundation.settings.broker_settings import Settings
from odradek.metadata.image.image import ClusterImage, ImageHolder
from odradek.network.flow_control import Arrive
from odradek.network.listener import Listener

if TYPE_CHECKING:
    from odradek.broker.quotas.connection_rates import ConnectionRates

KEY: Final = "max.connection.creation.rate"
_UNLIMITED: Final = 2_147_483_647


class ConnectionWatch:
    """Follows the image and the settings of one broker. `listeners` serve clients."""

    def __init__(
        self,
        images: ImageHolder,
        current_settings: Callable[[], Settings],
        listeners: Sequence[Listener],
        clock: Clock,
    ) -> None:
        self._images = images
        self._current_settings = current_settings
        self._listeners = listeners
        self._clock = clock
        self.rates: ConnectionRates | None = None
        """The connections that have come; None as long as nothing was bounded."""
        self.apply()
        self.stop: Callable[[], None] = images.subscribe(self._follow)

    def _follow(self, old: ClusterImage, new: ClusterImage) -> None:
        if old.client_configs is not new.client_configs:
            self.apply()

    def apply(self) -> None:
        """Bound by the settings and quotas of now."""
        settings = self._current_settings()
        own = {
            one.name: float(settings.listener_value(one.name, KEY, is_own=True)) for one in self._listeners
        }
        configs = self._images.current.client_configs
        of_addresses = {entity: texts for entity, texts in configs.items() if entity.ip is not None}
        broker = float(settings.max_connection_creation_rate)
        if self.rates is None and not of_addresses and min(broker, *own.values()) >= _UNLIMITED:
            return
        # Most brokers bound nothing: their start does without these modules.
        if self.rates is None:
            between_brokers = settings.listener_between_brokers
            self.rates = late.ConnectionRates(
                windows=settings.quota_window_num,
                window_seconds=settings.quota_window_size_seconds,
                exempt_listener=between_brokers if len(self._listeners) > 1 else "",
            )
        self.rates.change_listeners(broker=broker, listeners=own)
        self.rates.change_addresses(late.quota_tables(of_addresses)[late.QuotaKey.CONNECTION])
        for listener in self._listeners:
            listener.arrive = self._arrive_at(listener.name) if self.rates.is_on else None

    def _arrive_at(self, listener: str) -> Arrive:
        rates, clock = self.rates, self._clock
        assert rates is not None

        def arrive(ip: str) -> tuple[float, bool] | None:
            found = rates.arrive(listener, ip, int(clock.monotonic_seconds() * 1000))
            return None if found is None else (found.wait_ms / 1000, found.is_refused)

        return arrive
