"""The metrics of client quotas: which clients were held up, how often, and for how long."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nlargest
from typing import Any, Final

from odradek.broker.process.broker_process import AnyBroker
from odradek.broker.quotas.keys import QuotaKey
from odradek.broker.quotas.meters import Meters
from odradek.foundation import metrics
from odradek.foundation.limits import QUOTA_CLIENTS_PER_SCRAPE_MAX
from odradek.foundation.metrics import Sample

_MS_PER_SECOND: Final = 1000


def quota_samples(broker: AnyBroker) -> Iterator[Sample]:
    """Nothing while no client has had a quota, and no rate of connections was bounded."""
    yield from _of_clients(broker)
    yield from _of_connections(broker)


def _of_connections(broker: AnyBroker) -> Iterator[Sample]:
    rates = broker.connection_watch.rates
    if rates is None:
        return
    yield Sample(metrics.QUOTA_THROTTLES, (QuotaKey.CONNECTION,), rates.refused)
    yield Sample(metrics.QUOTA_THROTTLE_SECONDS, (QuotaKey.CONNECTION,), rates.refused_ms / _MS_PER_SECOND)
    longest = nlargest(
        QUOTA_CLIENTS_PER_SCRAPE_MAX, rates.by_address.items(), key=lambda named: named[1].held_ms
    )
    for ip, pace in longest:
        if pace.held:
            yield Sample(metrics.QUOTA_IP_THROTTLE_SECONDS, (ip,), pace.held_ms / _MS_PER_SECOND)
    for name, pace in rates.listeners.items():
        if pace.held:
            yield Sample(metrics.ACCEPT_THROTTLES, (name,), pace.held)
            yield Sample(metrics.ACCEPT_THROTTLE_SECONDS, (name,), pace.held_ms / _MS_PER_SECOND)


def _of_clients(broker: AnyBroker) -> Iterator[Sample]:
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
