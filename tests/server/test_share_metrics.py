"""What /metrics has about share groups: records in flight, acknowledgements, sessions, states, dead letters."""

from __future__ import annotations

import asyncio

from odradek.foundation.limits import SHARE_RUNS_PER_SCRAPE_MAX
from odradek.server.http import share_metrics
from odradek.wire.protocol.api import ApiKey
from tests.broker.requests.test_share_fetch import begun
from tests.broker.shares.test_dead_letters import Gate, begun_with_topic
from tests.server.test_broker_metrics import labels, scrape
from tests.support.share_consumer import ACCEPT, REJECT, RELEASE, RENEW, ShareConsumer
from tests.support.whole_broker import WholeBroker

PARTITION = labels(group="g", topic="t", partition=0)
IN_FLIGHT = "odradek_share_partition_in_flight_messages"


async def test_records_in_flight_and_their_acknowledgements_are_counted() -> None:
    broker, _, member = await begun(batches=10)
    assert await member.acquire(max_wait=100, max_records=6) == [(0, 5, 1)]
    await member.must_acknowledge((0, 0, [RENEW]), is_renew_ack=True)
    await member.must_acknowledge((0, 3, [RELEASE, ACCEPT, ACCEPT, 0]))
    samples = scrape(broker)
    assert samples[IN_FLIGHT, PARTITION] == 6
    assert samples["odradek_share_partition_in_flight_batches", PARTITION] == 1
    assert samples["odradek_share_partition_acquired_messages", PARTITION] == 2
    assert samples["odradek_share_partition_lag_messages", PARTITION] == 7
    acknowledged = {
        kind: samples["odradek_share_group_record_acknowledgements_total", labels(ack_type=kind)]
        for kind in ("Accept", "Release", "Reject", "Renew", "Gap")
    }
    assert acknowledged == {"Accept": 2, "Release": 1, "Reject": 0, "Renew": 1, "Gap": 1}
    assert samples["odradek_share_group_partition_load_seconds_count", ()] == 1
    assert samples["odradek_share_partition_acquisition_lock_timeouts_total", PARTITION] == 0
    await asyncio.sleep(31)
    samples = scrape(broker)
    assert samples["odradek_share_partition_acquisition_lock_timeouts_total", PARTITION] == 2
    assert samples["odradek_share_partition_acquired_messages", PARTITION] == 0


async def test_sessions_are_counted_and_those_refused() -> None:
    broker, _, member = await begun(partitions=2, group_share_max_share_sessions="1")
    other = ShareConsumer(broker, member_id="n")
    assert (await other.fetch()).error_code == 133
    samples = scrape(broker)
    assert samples["odradek_share_sessions", ()] == 1
    assert samples["odradek_share_session_partitions", ()] == 2
    assert samples["odradek_share_sessions_refused_total", ()] == 1
    await member.leave()
    samples = scrape(broker)
    assert samples["odradek_share_sessions", ()] == 0
    assert (IN_FLIGHT, PARTITION) not in samples


async def test_groups_and_the_writes_of_their_states_are_counted() -> None:
    broker = await WholeBroker.start({"share.coordinator.state.topic.num.partitions": "1"})
    await broker.create_topic("t")
    await broker.ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g"])
    await broker.broker.coordinators.groups.runtime.wait_until_loaded()
    epoch = 0
    for _ in range(2):
        answer = await broker.ask(
            ApiKey.SHARE_GROUP_HEARTBEAT,
            1,
            group_id="g",
            member_id="m",
            member_epoch=epoch,
            rack_id=None,
            subscribed_topic_names=["t"],
        )
        assert answer.error_code == 0, answer.error_message
        epoch = answer.member_epoch
        await asyncio.sleep(3)
    samples = scrape(broker)
    assert samples["odradek_groups", labels(protocol="share", state="Stable")] == 1
    assert samples["odradek_share_group_rebalances_total", ()] >= 1
    assert samples["odradek_share_coordinator_writes_total", ()] == 1
    assert samples["odradek_share_coordinator_partitions_refused", ()] == 0
    assert samples["odradek_share_state_requests_total", ()] == 0


async def test_dead_letters_are_counted_by_group() -> None:
    broker, _, member = await begun_with_topic(batches=3)
    gate = Gate(broker)
    gate.failures = 1
    gate.go.clear()
    assert await member.acquire(max_wait=100) == [(0, 2, 1)]
    # A counter that begins at 2 would be no increase to Prometheus, and no alert.
    prefix, group = "odradek_share_group_dead_letter_queue", labels(group="g")
    for name in ("records", "refused_records", "produce_requests", "failed_produce_requests"):
        assert scrape(broker)[f"{prefix}_{name}_total", group] == 0
    await member.must_acknowledge((0, 2, [REJECT, ACCEPT, REJECT]))
    await asyncio.sleep(1)
    under_way = "odradek_share_group_dead_letter_queue_records_under_way", ()
    assert scrape(broker)[under_way] == 2
    gate.go.set()
    await asyncio.sleep(1)
    samples = scrape(broker)
    assert samples[under_way] == 0
    assert samples[f"{prefix}_records_total", group] == 2
    assert samples[f"{prefix}_produce_requests_total", group] == 2
    assert samples[f"{prefix}_failed_produce_requests_total", group] == 1
    assert samples[f"{prefix}_refused_records_total", group] == 0


async def test_a_scrape_counts_the_acquired_records_of_a_bounded_number_of_runs() -> None:
    assert SHARE_RUNS_PER_SCRAPE_MAX <= 50_000
    broker, _, member = await begun(batches=2)
    await member.acquire(max_wait=100)
    leader = broker.broker.coordinators.share_leader
    (one,) = leader
    assert one.loaded is not None
    run = next(one.loaded.runs())
    one.loaded.batches[0].runs = [run] * (SHARE_RUNS_PER_SCRAPE_MAX + 1)
    names = [sample.metric.name for sample in share_metrics.share_samples(broker.broker)]
    assert IN_FLIGHT in names
    assert "odradek_share_partition_acquired_messages" not in names
    one.loaded.batches[0].runs = [run]
