"""The metrics of quotas name the clients that were held up, and are absent without quotas."""

from __future__ import annotations

from odradek.foundation import metrics
from odradek.foundation.client_entities import ClientEntity
from odradek.server.http.broker_metrics import quota_samples
from tests.broker.requests.test_mutation_quotas import create
from tests.broker.requests.test_throttling import produced, quota, started
from tests.support.whole_broker import WholeBroker


def values(broker: WholeBroker) -> dict[tuple[str, ...], float]:
    """Values by the metric's name and its labels, without zeros."""
    return {
        (sample.metric.name, *sample.labels): float(sample.value)
        for sample in quota_samples(broker.broker)
        if isinstance(sample.value, int | float) and sample.value
    }


async def test_throttled_clients_have_their_seconds() -> None:
    broker, connection = await started()
    assert values(broker) == {}
    limits = {"producer_byte_rate": 1_000.0, "controller_mutation_rate": 1.0}
    await quota(broker, ClientEntity(client_id=""), **limits)
    await produced(broker, 30_000)
    await create(broker, 7, 20)
    await create(broker, 7, 1, start=1)
    bytes_ms, mutations_ms = connection.muted_ms
    found = values(broker)
    throttles, seconds = metrics.QUOTA_THROTTLES.name, metrics.QUOTA_THROTTLE_SECONDS.name
    of_client = metrics.QUOTA_CLIENT_THROTTLE_SECONDS.name
    assert found == {
        (throttles, "producer_byte_rate"): 1,
        (throttles, "controller_mutation_rate"): 1,
        (seconds, "producer_byte_rate"): bytes_ms / 1000,
        (seconds, "controller_mutation_rate"): mutations_ms / 1000,
        (of_client, "producer_byte_rate", "", "test"): bytes_ms / 1000,
        (of_client, "controller_mutation_rate", "", "test"): mutations_ms / 1000,
    }
