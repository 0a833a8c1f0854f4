"""Turns the throttling of clients on and off with the quotas of the cluster, so that a broker without pays nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.metadata.image.image import ClusterImage, ImageHolder

if TYPE_CHECKING:
    from odradek.broker.requests.context import BrokerParts
    from odradek.broker.requests.dispatch import Dispatcher
    from odradek.broker.requests.throttling import ClientThrottling


class QuotaWatch:
    """Follows the image of one broker."""

    def __init__(self, images: ImageHolder, parts: BrokerParts, dispatcher: Dispatcher) -> None:
        self._parts = parts
        self._dispatcher = dispatcher
        self.throttling: ClientThrottling | None = None
        """The use of quotas by clients; None as long as no client has had a quota."""
        self._apply(images.current)
        self.stop: Callable[[], None] = images.subscribe(self._follow)

    def _follow(self, old: ClusterImage, new: ClusterImage) -> None:
        if old.client_configs is not new.client_configs:
            self._apply(new)

    def _apply(self, image: ClusterImage) -> None:
        if not image.client_configs and self.throttling is None:
            return
        throttling = self.throttling
        if throttling is None:
            # Most brokers have no quotas, and their start does without this module.
            from odradek.broker.requests.throttling import ClientThrottling

            settings = self._parts.settings
            throttling = self.throttling = ClientThrottling(
                self._parts.clock,
                windows=settings.quota_window_num,
                window_seconds=settings.quota_window_size_seconds,
            )
        throttling.change(image.client_configs)
        if throttling.is_on or self._parts.throttling is not None:
            self._parts.throttling = throttling if throttling.is_on else None
            first = (throttling,) if throttling.is_on else ()
            self._dispatcher.change_steps(
                lambda steps: [*first, *(step for step in steps if step is not throttling)]
            )
