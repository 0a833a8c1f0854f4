"""GetTelemetrySubscriptions and PushTelemetry, as Kafka 4.4 answers them where a receiver is configured."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from odradek.foundation.telemetry_limits import TELEMETRY_INSTANCES_MAX
from odradek.network.connection import Connection
from odradek.wire.protocol.api import ApiKey
from odradek.wire.records.compression import Compression, compress
from tests.server.test_broker_metrics import labels, scrape
from tests.support.pushed_metrics import gauge, point, pushed, total
from tests.support.whole_broker import WholeBroker

ON = {"client.telemetry.enable": "true"}
SOME = pushed(gauge("org.apache.kafka.m", point(4, topic="t")), total("org.apache.kafka.s", point(5)))
INVALID_REQUEST, UNSUPPORTED_COMPRESSION, INVALID_RECORD, THROTTLED = 42, 76, 87, 89
UNKNOWN_SUBSCRIPTION, TOO_LARGE = 117, 118
MINUTE = 60


class TelemetryClient:
    """A client of a broker that takes metrics."""

    def __init__(self, broker: WholeBroker) -> None:
        self.broker = broker
        self.id: UUID | None = None
        self.subscription = 0

    async def subscribe(self) -> Any:
        answer = await self.broker.ask(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, client_instance_id=self.id)
        if not answer.error_code:
            self.id, self.subscription = answer.client_instance_id, answer.subscription_id
        return answer

    async def push(
        self, metrics: bytes = SOME, *, compression: int = 0, terminating: bool = False, **others: Any
    ) -> int:
        fields = {"client_instance_id": self.id, "subscription_id": self.subscription, **others}
        answer = await self.broker.ask(
            ApiKey.PUSH_TELEMETRY,
            0,
            **fields,
            terminating=terminating,
            compression_type=compression,
            metrics=metrics,
        )
        assert not answer.throttle_time
        return int(answer.error_code)


async def begun(**entries: str) -> tuple[WholeBroker, TelemetryClient]:
    named = {key.replace("_", "."): text for key, text in entries.items()}
    broker = await WholeBroker.start({**ON, **named})
    return broker, TelemetryClient(broker)


async def want(broker: WholeBroker, name: str = "all", **configs: str) -> None:
    """Set a subscription, or remove it."""
    keys = ("metrics", "interval.ms", "match")
    named = {key: configs.get(key.partition(".")[0]) for key in keys}
    changes = [
        {"name": key, "config_operation": 0 if text is not None else 1, "value": text}
        for key, text in named.items()
    ]
    resources = [{"resource_type": 16, "resource_name": name, "configs": changes}]
    answer = await broker.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=resources, validate_only=False)
    assert answer.responses[0].error_code == 0, answer


async def listed(broker: WholeBroker) -> set[int]:
    answer = await broker.ask(
        ApiKey.API_VERSIONS, 3, client_software_name="lib", client_software_version="1.0"
    )
    return {row.api_key for row in answer.api_keys} & {71, 72}


async def test_only_a_broker_that_takes_metrics_lists_the_requests() -> None:
    assert await listed(await WholeBroker.start()) == set()
    broker, _ = await begun()
    assert await listed(broker) == {71, 72}


async def test_without_a_subscription_nothing_is_asked_for() -> None:
    _, client = await begun()
    answer = await client.subscribe()
    assert answer.client_instance_id not in (None, UUID(int=0), UUID(int=1))
    assert answer.requested_metrics == ()
    assert answer.accepted_compression_types == (4, 3, 1, 2)
    assert answer.push_interval.total_seconds() == 300
    assert answer.telemetry_max_bytes == 1_048_576
    assert answer.delta_temporality is True


async def test_subscriptions_that_match_are_joined() -> None:
    broker, client = await begun(telemetry_max_bytes="1000")
    await want(broker, "a", metrics="org.apache.kafka.b,org.apache.kafka.a", interval="2000")
    await want(
        broker,
        "b",
        metrics="org.apache.kafka.c",
        interval="1000",
        match="client_id=te.t,client_source_port=5.*",
    )
    await want(broker, "c", metrics="*", interval="500", match="client_id=tes")
    await want(broker, "d", metrics="*", interval="600", match="client_software_name=.*")
    answer = await client.subscribe()
    assert answer.requested_metrics == ("org.apache.kafka.a", "org.apache.kafka.b", "org.apache.kafka.c")
    assert answer.push_interval.total_seconds() == 1
    assert answer.telemetry_max_bytes == 1000
    await listed(broker)
    named = TelemetryClient(broker)
    answer = await named.subscribe()
    assert answer.requested_metrics == ("*",)
    assert answer.push_interval.total_seconds() == 0.6
    assert answer.subscription_id != client.subscription


async def test_a_client_keeps_its_id_and_its_number_says_what_it_is_asked_for() -> None:
    broker, client = await begun()
    await want(broker, metrics="*")
    await client.subscribe()
    first, number = client.id, client.subscription
    await asyncio.sleep(5 * MINUTE)
    await client.subscribe()
    assert (client.id, client.subscription) == (first, number)
    await want(broker, metrics="org")
    await client.subscribe()
    assert client.id == first and client.subscription != number


async def test_pushed_metrics_are_samples_with_the_client_as_labels() -> None:
    broker, client = await begun()
    await want(broker, metrics="*", interval="1000")
    await client.subscribe()
    for _ in range(3):
        assert await client.push() == 0
        await asyncio.sleep(1)
    samples = scrape(broker)
    (name,) = [key for key in samples if key[0] == "odradek_client_metric"]
    (sums,) = [key for key in samples if key[0] == "odradek_client_counter_total"]
    instance = dict(name[1])["client_instance"]
    assert len(instance) == 22
    common = {
        "client_id": "test",
        "client_instance": instance,
        "node_id": "",
        "partition": "",
        "attributes": "",
    }
    assert name[1] == labels(**common, metric="org.apache.kafka.m", topic="t")
    assert sums[1] == labels(**common, metric="org.apache.kafka.s", topic="")
    assert (samples[name], samples[sums]) == (4, 15)
    assert samples["odradek_client_pushes_total", ()] == 3
    assert samples["odradek_client_metric_series", ()] == 3
    assert samples["odradek_client_instances", ()] == 1


async def test_a_client_that_comes_early_is_refused() -> None:
    broker, client = await begun()
    await want(broker, metrics="*", interval="1000")
    assert (await client.subscribe()).error_code == 0
    assert (await client.subscribe()).error_code == THROTTLED
    assert await client.push() == 0
    assert await client.push() == THROTTLED
    assert (await client.subscribe()).error_code == THROTTLED
    await asyncio.sleep(1)
    assert await client.push() == 0
    assert await client.push(terminating=True) == 0
    refused = scrape(broker)["odradek_client_pushes_refused_total", labels(reason="early")]
    assert refused == 3


async def test_a_changed_subscription_is_asked_for_at_once() -> None:
    broker, client = await begun()
    await want(broker, metrics="*")
    await client.subscribe()
    assert await client.push() == 0
    await want(broker, metrics="org")
    assert await client.push() == UNKNOWN_SUBSCRIPTION
    assert (await client.subscribe()).error_code == 0
    assert (await client.subscribe()).error_code == THROTTLED
    assert await client.push() == THROTTLED, "as in Kafka, the refused push counts as one of its interval"
    await asyncio.sleep(5 * MINUTE)
    assert await client.push() == 0


async def test_after_the_last_push_none_is_taken() -> None:
    broker, client = await begun()
    await want(broker, metrics="*", interval="1000")
    await client.subscribe()
    assert await client.push(terminating=True) == 0
    await asyncio.sleep(1)
    assert await client.push() == INVALID_REQUEST
    await asyncio.sleep(1)
    assert await client.push() == 0, "as in Kafka, the refused push was not the last one"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"client_instance_id": None}, INVALID_REQUEST),
        ({"client_instance_id": UUID(int=1)}, INVALID_REQUEST),
        ({"subscription_id": 7}, UNKNOWN_SUBSCRIPTION),
        ({"compression": 5}, UNSUPPORTED_COMPRESSION),
        ({"compression": -1}, UNSUPPORTED_COMPRESSION),
        ({"metrics": bytes(10_001)}, TOO_LARGE),
        ({"metrics": b"\xff"}, INVALID_RECORD),
        ({"metrics": b"no gzip", "compression": Compression.GZIP}, INVALID_RECORD),
        (
            {"metrics": compress(bytes(20_000), Compression.ZSTD), "compression": Compression.ZSTD},
            INVALID_RECORD,
        ),
        ({"metrics": b""}, 0),
        ({"metrics": compress(SOME, Compression.LZ4), "compression": Compression.LZ4}, 0),
        ({"metrics": pushed(*[gauge("m", point(1, topic=f"t{one}")) for one in range(150)])}, 0),
    ],
)
async def test_what_cannot_be_taken_is_refused_as_by_kafka(fields: dict[str, Any], error: int) -> None:
    broker, client = await begun(telemetry_max_bytes="10000")
    await want(broker, metrics="*")
    await client.subscribe()
    assert await client.push(**fields) == error
    if error in (INVALID_RECORD, TOO_LARGE):
        assert (await client.subscribe()).error_code == THROTTLED


async def test_a_client_of_another_broker_may_push_at_once() -> None:
    broker, client = await begun()
    await want(broker, metrics="*")
    await client.subscribe()
    telemetry = broker.broker.parts.telemetry
    assert telemetry is not None and client.id is not None
    telemetry.telemetry.instances.forget(client.id)
    assert await client.push() == 0


async def test_what_a_client_pushed_stays_for_a_while_after_its_end() -> None:
    broker, client = await begun()
    await want(broker, metrics="*", interval="1000")
    broker.connection = Connection(id=2, listener_name="PLAINTEXT", peer=("client.test", 5001))
    await client.subscribe()
    assert await client.push(terminating=True) == 0
    broker.connection.report_lost()
    samples = scrape(broker)
    assert samples["odradek_client_instances", ()] == 0
    assert samples["odradek_client_metric_series", ()] == 3
    await asyncio.sleep(MINUTE)
    samples = scrape(broker)
    assert samples["odradek_client_metric_series", ()] == 0
    assert not [key for key in samples if key[0] == "odradek_client_metric"]


async def test_clients_are_known_in_a_bounded_number() -> None:
    broker, _ = await begun()
    parts = broker.broker.parts.telemetry
    assert parts is not None
    telemetry = parts.telemetry
    names = ("client_id", "client_software_name", "client_software_version", "client_source_address")
    described = dict.fromkeys(names, "x")
    first = telemetry.subscribe(None, described)
    for _ in range(TELEMETRY_INSTANCES_MAX):
        telemetry.subscribe(None, described)
    assert len(telemetry.instances) == TELEMETRY_INSTANCES_MAX
    assert first.id not in telemetry.instances
    assert telemetry.instances.evicted == 1
    await asyncio.sleep(15 * MINUTE)
    telemetry.subscribe(None, described)
    assert len(telemetry.instances) == 1
