"""The subscriptions of the cluster: which metrics are wanted of which clients, and how often.

They are the settings of the resources of the kind client-metrics (`metadata.image.client_metrics_configs`).
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.foundation.settings.declaration import SettingValue
from odradek.metadata.image.client_metrics_configs import (
    CLIENT_METRICS_SETTINGS,
    INTERVAL,
    MATCH,
    METRICS,
    WholeMatcher,
    match_patterns,
)
from odradek.metadata.image.image import ClusterImage, ResourceKind


class MetricsSubscription:
    """One subscription, from the texts of its settings."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        values: dict[str, SettingValue] = {
            key: setting.parse(texts[key]) if key in texts else setting.default
            for key, setting in CLIENT_METRICS_SETTINGS.items()
        }
        self.metrics: tuple[str, ...] = values[METRICS]
        self.interval_ms: int = values[INTERVAL]
        # Of several patterns for one name the last counts, as in Kafka.
        self._patterns: dict[str, WholeMatcher] = dict(match_patterns(values[MATCH]))

    def matches(self, attributes: Mapping[str, str | None]) -> bool:
        """Whether it is for a client with these attributes: each pattern matches the whole of one."""
        for name, pattern in self._patterns.items():
            value = attributes.get(name)
            if value is None or not pattern.fullmatch(value):
                return False
        return True


def subscriptions_of(image: ClusterImage) -> list[MetricsSubscription]:
    """All subscriptions, in the order of their names."""
    return [
        MetricsSubscription(texts)
        for (kind, _), texts in sorted(image.configs.items(), key=lambda one: one[0][1])
        if kind is ResourceKind.CLIENT_METRICS
    ]
