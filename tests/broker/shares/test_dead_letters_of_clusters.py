"""Dead letters in a cluster: other brokers lead their topics, leaders end in the middle, and replicas are away."""

from __future__ import annotations

from odradek.wire.protocol.api import ApiKey
from odradek.wire.records.batch import split
from odradek.wire.records.record import records
from tests.broker.shares.test_share_leaders import acknowledge, acquired, begun, fetch
from tests.support.whole_cluster import WholeCluster

REJECT = 3
TOPIC, BROKER, GROUP = 2, 4, 32


async def alter(cluster: WholeCluster, kind: int, name: str, **texts: str) -> None:
    resource = {
        "resource_type": kind,
        "resource_name": name,
        "configs": [
            {"name": key.replace("_", "."), "config_operation": 0, "value": text}
            for key, text in texts.items()
        ],
    }
    answer = await cluster.ask(
        3, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False
    )
    assert answer.responses[0].error_code == 0, answer.responses[0].error_message


async def begun_with_topic(*placed: int) -> WholeCluster:
    """As `begun`, with four records and the dead-letter topic on these brokers."""
    cluster = await begun()
    for number in range(4):
        await cluster.produce(1, "t", 0, b"%d" % number, acks=-1)
    assert await cluster.create_topic("dlq.t", through=3, assignment=[list(placed)]) == 0
    await alter(cluster, TOPIC, "dlq.t", errors_deadletterqueue_group_enable="true")
    await alter(cluster, GROUP, "g", errors_deadletterqueue_topic_name="dlq.t")
    return cluster


def offsets(cluster: WholeCluster, broker_id: int) -> list[int]:
    """The origins of the dead letters in that broker's replica."""
    hosted = cluster.brokers[broker_id].partitions
    (found,) = [one for one in hosted if one.topic_partition == ("dlq.t", 0)]
    if not found.log.log_end_offset:
        return []
    data = found.log.read(0, bytes_max=1 << 20, at_least_one_batch=True).read()
    return [
        int(record.headers[2][1] or b"") for batch in split(memoryview(data)) for record in records(batch)
    ]


def is_archived(cluster: WholeCluster, broker_id: int) -> bool:
    """Whether nothing is on its way to the dead-letter topic there, and the group begins behind it."""
    (found,) = list(cluster.brokers[broker_id].coordinators.share_leader)
    return not found.dead_letters.under_way and found.in_flight.start_offset == 4


async def test_the_leader_of_the_dead_letter_topic_may_be_another_broker() -> None:
    cluster = await begun_with_topic(3, 2)
    assert acquired(await fetch(cluster, 1, 0)) == [(0, 3, 1)]
    assert await acknowledge(cluster, 1, 1, 0, 3, kind=REJECT) == 0
    await cluster.until(lambda: is_archived(cluster, 1))
    assert offsets(cluster, 3) == offsets(cluster, 2) == [0, 1, 2, 3]


async def test_a_controller_elsewhere_creates_the_topic() -> None:
    cluster = await begun()
    key = "errors.deadletterqueue.auto.create.topics.enable"
    await alter(cluster, BROKER, "", **{key: "true"})
    await alter(cluster, GROUP, "g", errors_deadletterqueue_topic_name="dlq.t")
    await cluster.produce(1, "t", 0, *[b"v"] * 4, acks=-1)
    assert acquired(await fetch(cluster, 1, 0)) == [(0, 3, 1)]
    assert await acknowledge(cluster, 1, 1, 0, 3, kind=REJECT) == 0
    await cluster.until(lambda: is_archived(cluster, 1))
    assert offsets(cluster, cluster.leaders("dlq.t", seen_by=3)[0]) == [0, 1, 2, 3]


async def test_a_new_leader_writes_what_the_old_one_could_not() -> None:
    cluster = await begun_with_topic(3)
    assert acquired(await fetch(cluster, 1, 0)) == [(0, 3, 1)]
    writer = cluster.brokers[1].coordinators.dead_letters
    held = writer._slots
    while not held.locked():
        await held.acquire()
    assert await acknowledge(cluster, 1, 1, 0, 3, kind=REJECT) == 0
    await cluster.kill_broker(1)
    await cluster.until(lambda: cluster.leaders("t", seen_by=2) == [2])
    assert offsets(cluster, 3) == []
    assert acquired(await fetch(cluster, 2, 0)) == []
    await cluster.until(lambda: is_archived(cluster, 2))
    assert offsets(cluster, 3) == [0, 1, 2, 3]


async def test_a_leader_whose_answer_is_lost_is_asked_again() -> None:
    """The dead-letter topic's leader is killed, and comes back later: what it had written may be there twice."""
    cluster = await begun_with_topic(3)
    assert acquired(await fetch(cluster, 1, 0)) == [(0, 3, 1)]
    await cluster.kill_broker(3)
    assert await acknowledge(cluster, 1, 1, 0, 1, kind=1) == 0
    assert await acknowledge(cluster, 1, 2, 2, 3, kind=REJECT) == 0
    await cluster.start_broker(3)
    await cluster.until(lambda: is_archived(cluster, 1), seconds_max=120)
    assert set(offsets(cluster, 3)) == {2, 3}


async def test_replicas_that_are_missing_are_waited_for() -> None:
    cluster = await begun_with_topic(3, 2)
    await alter(cluster, TOPIC, "dlq.t", min_insync_replicas="2")
    assert acquired(await fetch(cluster, 1, 0)) == [(0, 3, 1)]
    await cluster.stop_broker(2)
    await cluster.until(lambda: cluster.leaders("t", seen_by=1) == [1])
    assert await acknowledge(cluster, 1, 1, 0, 3, kind=REJECT) == 0
    counts = cluster.brokers[1].coordinators.dead_letters.counts.of("g")
    await cluster.until(lambda: counts.failed_requests >= 3)
    assert counts.written == 0
    await cluster.start_broker(2)
    await cluster.until(lambda: is_archived(cluster, 1), seconds_max=120)
    assert set(offsets(cluster, 3)) == {0, 1, 2, 3}
    assert counts.refused == 0
