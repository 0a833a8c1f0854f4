"""The metrics of client quotas: which clients were held up, how often, and for how long."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nlargest
from typing import Any, Final

from odradek.foundation import metrics
from odradek.foundation.limits import QUOTA_CLIENTS_PER_SCRAPE_MAX
from odradek.foundation.metrics import Sample
from odradek.quotas.keys import QuotaKey
from odradek.quotas.meters import Meters
from odradek.server.broker.broker_process import AnyBroker

_MS_PER_SECOND: Final = 1000


def quota_samples(broker: AnyBroker) -> Iterator[Sample]:
    """Nothing while no client has had a quota."""
    kinds: dict[QuotaKey, Meters[Any]] = {}
    throttling = broker.quota_watch.throttling
    if throttling is not None:
        kinds |= {
            QuotaKey.PRODUCE: throttling.produce,
            QuotaKey.FETCH: throttling.fetch,
            QuotaKey.REQUEST: throttling.request,
        }
    mutations = broker.parts.mutations
    if mutations is not None and mutations.meters is not None:
        kinds[QuotaKey.CONTROLLER_MUTATION] = mutations.meters
    for key, meters in kinds.items():
        yield Sample(metrics.QUOTA_THROTTLES, (key,), meters.throttled)
        yield Sample(metrics.QUOTA_THROTTLE_SECONDS, (key,), meters.throttled_ms / _MS_PER_SECOND)
        # Clients choose their ids, so not every one of them gets a series.
        longest = nlargest(
            QUOTA_CLIENTS_PER_SCRAPE_MAX, meters.meters, key=lambda meter: int(meter.throttled_ms)
        )
        for meter in longest:
            if meter.throttled_ms:
                yield Sample(
                    metrics.QUOTA_CLIENT_THROTTLE_SECONDS,
                    (key, *meter.share),
                    meter.throttled_ms / _MS_PER_SECOND,
                )
