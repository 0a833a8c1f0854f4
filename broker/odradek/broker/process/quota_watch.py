"""Turns the throttling of clients on and off with the quotas of the cluster, so that a broker without pays nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from odradek.broker.process import late
from odradek.foundation.turn_limits import NODE_CHANGES_PER_TURN_MAX
from odradek.metadata.image.image import ClientConfigs, ClusterImage, ImageHolder

if TYPE_CHECKING:
    from odradek.broker.quotas.keys import QuotaKey
    from odradek.broker.quotas.precedence import QuotaTable
    from odradek.broker.requests.dispatch import Dispatcher
    from odradek.broker.requests.parts import FetchParts
    from odradek.broker.requests.throttling import ClientThrottling


class QuotaWatch:
    """Follows the image of one broker."""

    def __init__(self, images: ImageHolder, parts: FetchParts, dispatcher: Dispatcher) -> None:
        self._parts = parts
        self._dispatcher = dispatcher
        self.throttling: ClientThrottling | None = None
        """The use of quotas by clients; None as long as no client has had a quota."""
        self._images = images
        # The tables of quotas of the configs that come next.
        self._prepared: tuple[ClientConfigs, Mapping[QuotaKey, QuotaTable]] | None = None
        self._apply(images.current)
        self.stop: Callable[[], None] = images.subscribe(self._follow, prepare=self._prepare)

    async def _prepare(self, new: ClusterImage) -> None:
        """Read many quotas some in each turn of the loop; all are read, whichever have changed."""
        configs = new.client_configs
        if configs is not self._images.current.client_configs and len(configs) > NODE_CHANGES_PER_TURN_MAX:
            self._prepared = configs, await late.quota_tables_in_turns(configs)

    def _follow(self, old: ClusterImage, new: ClusterImage) -> None:
        if old.client_configs is not new.client_configs:
            self._apply(new)

    def _apply(self, image: ClusterImage) -> None:
        if not image.client_configs and self.throttling is None:
            return
        throttling = self.throttling
        if throttling is None:
            # Most brokers have no quotas, and their start does without this module.
            settings = self._parts.settings
            throttling = self.throttling = late.ClientThrottling(
                self._parts.clock,
                windows=settings.quota_window_num,
                window_seconds=settings.quota_window_size_seconds,
            )
        configs = image.client_configs
        is_prepared = self._prepared is not None and self._prepared[0] is configs
        throttling.change(self._prepared[1] if self._prepared and is_prepared else late.quota_tables(configs))
        self._prepared = None
        if throttling.is_on or self._parts.throttling is not None:
            self._parts.throttling = throttling if throttling.is_on else None
            first = (throttling,) if throttling.is_on else ()
            self._dispatcher.change_steps(
                lambda steps: [*first, *(step for step in steps if step is not throttling)]
            )
