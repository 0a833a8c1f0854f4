"""Holds clients to their quota of partitions created and deleted (controller_mutation_rate, KIP-599).

The controller counts, for all brokers together. The request that takes a client below zero is served. From the versions
in `_STRICT_FROM` on, further topics are refused with THROTTLING_QUOTA_EXCEEDED until the time in the answer is over.
Requests of older versions are served. In both cases the broker of the client mutes its connection for that time.

Left out: topics that brokers create for a Metadata request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from odradek.broker.requests import late
from odradek.foundation.client_entities import ClientEntity
from odradek.foundation.errors import ThrottlingQuotaExceeded
from odradek.metadata.image.image import ImageHolder
from odradek.wire.protocol.api import ApiKey

if TYPE_CHECKING:
    from odradek.broker.quotas.meters import Meter, Meters
    from odradek.broker.quotas.token_bucket import TokenBucket
    from odradek.foundation.clock import Clock
    from odradek.foundation.settings.broker_settings import Settings
    from odradek.wire.protocol.framing import RequestHeader

_STRICT_FROM: Final[dict[int, int]] = {
    ApiKey.CREATE_TOPICS: 6,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.CREATE_PARTITIONS: 3,
}


class NoQuota:
    """The quota of a client that has none."""

    throttle_ms: Final = 0

    def spend(self, partitions: int) -> None:
        """Nothing is counted."""


_NO_QUOTA: Final = NoQuota()


def quota_of(
    mutations: MutationQuotas | None, principal: str, header: RequestHeader
) -> PartitionQuota | NoQuota:
    """The quota of partitions that the client of a request may create and delete."""
    return _NO_QUOTA if mutations is None else mutations.of_client(principal, header)


class MutationQuotas:
    """The quotas of one controller, and what clients have used of them."""

    def __init__(self, images: ImageHolder, settings: Settings, clock: Clock) -> None:
        self._images = images
        self._settings = settings
        self._clock = clock
        self._configs: Mapping[ClientEntity, Mapping[str, str]] | None = None
        self._meters: Meters[TokenBucket] | None = None

    def of_client(self, principal: str, header: RequestHeader) -> PartitionQuota | NoQuota:
        configs = self._images.current.client_configs
        if not configs:
            return _NO_QUOTA
        meter = self._current(configs).find(principal, header.client_id)
        if meter is None:
            return _NO_QUOTA
        return PartitionQuota(
            meter, self._clock, is_strict=header.api_version >= _STRICT_FROM[header.api_key]
        )

    @property
    def meters(self) -> Meters[TokenBucket] | None:
        """The meters of clients, for a scrape."""
        return self._meters

    def _current(self, configs: Mapping[ClientEntity, Mapping[str, str]]) -> Meters[TokenBucket]:
        if self._meters is None:
            windows = self._settings.controller_quota_window_num
            burst_seconds = float(windows * self._settings.controller_quota_window_size_seconds)
            self._meters = late.Meters(lambda: late.TokenBucket(burst_seconds=burst_seconds))
        if configs is not self._configs:
            self._configs = configs
            self._meters.change(late.quota_tables(configs)[late.QuotaKey.CONTROLLER_MUTATION])
        return self._meters


class PartitionQuota:
    """The quota of the client of one request. `throttle_ms` is the time that the client has to wait."""

    def __init__(self, meter: Meter[TokenBucket], clock: Clock, *, is_strict: bool) -> None:
        self._meter = meter
        self._clock = clock
        self._is_strict = is_strict
        self.throttle_ms = 0

    def spend(self, partitions: int) -> None:
        """Count partitions that are about to be created or deleted. Raises ThrottlingQuotaExceeded."""
        meter = self._meter
        now_ms = int(self._clock.monotonic_seconds() * 1000)
        excess_ms = meter.excess_ms(now_ms)
        if not self._is_strict or not excess_ms:
            meter.usage.spend(partitions, meter.limit, now_ms)
            if not self._is_strict:
                excess_ms = meter.excess_ms(now_ms)
        if excess_ms:
            if not self.throttle_ms:
                meter.note(excess_ms)
            self.throttle_ms = excess_ms
            if self._is_strict:
                raise ThrottlingQuotaExceeded("The throttling quota has been exceeded.")
