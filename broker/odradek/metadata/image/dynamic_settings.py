"""The broker's settings in force: those of its start, overridden by those changed while it runs.

Changes come as images of the cluster: `/config/brokers/<default>` for all brokers, `/config/brokers/N` for one, which
wins. A controller that is not a broker uses the former only. The latter belongs to broker N, and a controller may have
the same number. (In Kafka no two nodes share a number.) Code that must act on a change subscribes. Code that only reads
uses `current` each time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from odradek.foundation.errors import SettingError
from odradek.foundation.settings.broker_settings import Settings, find_listeners, find_setting
from odradek.foundation.settings.protection import missing_protection, without_missing_protection
from odradek.metadata.image.image import ClusterImage, ImageHolder, ResourceKind
from odradek.metadata.image.paths import DEFAULT_BROKER

logger = logging.getLogger(__name__)

SettingsCallback = Callable[[Settings, Settings], None]


class DynamicSettings:
    """Follows `images`. `static` are the settings of the start, `current` those in force."""

    def __init__(self, static: Settings, images: ImageHolder, *, is_broker: bool = True) -> None:
        self.static = static
        self.current = static
        self.broker_name = str(static.effective_broker_id) if is_broker else None
        """The broker id of this process's own settings; None when it has none."""
        self._callbacks: list[SettingsCallback] = []
        self._named: set[str] = set()
        """Ignored settings that the log has named."""
        self._apply(images.current)
        # Subscribed first and so called first: later subscribers read the settings of the new image.
        images.subscribe(self._follow)

    def subscribe(self, callback: SettingsCallback) -> Callable[[], None]:
        """Call `callback(old, new)` after each change of any value; the result ends it."""
        self._callbacks.append(callback)

        def unsubscribe() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return unsubscribe

    def _follow(self, old: ClusterImage, new: ClusterImage) -> None:
        names = (DEFAULT_BROKER, self.broker_name or DEFAULT_BROKER)
        if any(
            old.config(ResourceKind.BROKER, name) != new.config(ResourceKind.BROKER, name) for name in names
        ):
            self._apply(new)

    def _apply(self, image: ClusterImage) -> None:
        overrides = self._drop_unprotected(image.broker_overrides(self.broker_name))
        try:
            new = self.static.with_overrides(overrides) if overrides else self.static
        except SettingError as error:
            # Both were valid when they were set; the static ones have changed since.
            logger.error("dynamic settings are ignored, since with them the settings contradict: %s", error)
            new = self.static
        old, self.current = self.current, new
        if new == old:
            return
        for callback in list(self._callbacks):
            try:
                callback(old, new)
            except Exception:
                logger.exception("%r could not follow a change of the settings", callback)

    def _drop_unprotected(self, overrides: dict[str, str]) -> dict[str, str]:
        """Without settings for protection that this broker lacks: an earlier version accepted them."""
        kept = without_missing_protection(overrides, find_setting, listeners=find_listeners(self.static))
        for key in overrides.keys() - kept.keys() - self._named:
            self._named.add(key)
            why = missing_protection(key, overrides[key], find_setting)
            logger.error("a dynamic setting is ignored: %s; `odradek configs unset broker` removes it", why)
        return kept
