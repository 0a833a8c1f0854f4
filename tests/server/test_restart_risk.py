"""Whether a broker may be stopped: by what its partitions need, have, and would have."""

import uuid

import pytest

from odradek.foundation.ids import TopicPartition
from odradek.metadata.image.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from odradek.server.http.cluster_admin import LatestRisk, RestartRisk, restart_answer, restart_risk
from tests.support.whole_cluster import WholeCluster


def image(
    *, live: tuple[int, ...] = (1, 2, 3), **topics: list[tuple[tuple[int, ...], tuple[int, ...]]]
) -> ClusterImage:
    """Topics by name, each partition as (replicas, in sync)."""
    made = {
        name: TopicImage(
            name,
            uuid.UUID(int=5),
            tuple(
                PartitionImage(number, isr[0], 0, replicas, isr, 0)
                for number, (replicas, isr) in enumerate(partitions)
            ),
            False,
        )
        for name, partitions in topics.items()
    }
    brokers = {number: BrokerImage(number, {}, None, number) for number in live}
    return ClusterImage(brokers=brokers, topics=made)


def risk(of: ClusterImage, broker_id: int = 1, *, needed: int = 2) -> RestartRisk:
    return restart_risk(of, frozenset((broker_id,)), min_insync_replicas=lambda topic: needed)


T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("of", "needed", "too_few", "only_here"),
    [
        (image(t=[((1, 2, 3), (1, 2, 3)), ((2, 3, 1), (2, 3, 1))]), 2, (), ()),
        # One that lags or is gone holds the others back.
        (image(t=[((2, 3, 1), (2, 3, 1)), ((1, 2, 3), (1, 2))]), 2, (T1,), ()),
        (image(live=(1, 2), t=[((2, 3, 1), (2, 3)), ((1, 2, 3), (1, 2, 3))]), 2, (T0, T1), ()),
        # One that is itself behind may go where enough others are in sync.
        (image(t=[((1, 2, 3), (2, 3))]), 2, (), ()),
        (image(t=[((1, 2, 3), (2,))]), 2, (T0,), ()),
        # Partitions of others, and those that are only here, do not count.
        (image(t=[((2, 3), (2,)), ((1,), (1,))]), 2, (), (T1,)),
        # No more are needed than there are.
        (image(t=[((1, 2), (1, 2))]), 3, (T0,), ()),
        (image(t=[((1, 2), (1, 2))]), 1, (), ()),
    ],
)
def test_one_may_go_where_enough_others_are_in_sync(
    of: ClusterImage, needed: int, too_few: tuple[TopicPartition, ...], only_here: tuple[TopicPartition, ...]
) -> None:
    found = risk(of, needed=needed)
    assert (found.too_few, found.only_here) == (too_few, only_here)
    assert found.can_restart is not bool(too_few)


def test_where_waiting_cannot_help_that_is_said() -> None:
    found = risk(image(t=[((1, 2), (1, 2)), ((1, 2), (1,)), ((1, 2, 3), (1, 2))]), needed=2)
    assert found.too_few == (TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("t", 2))
    assert found.never_safe == (TopicPartition("t", 0),), "others that are not in sync are worth waiting for"


@pytest.mark.parametrize(
    ("of", "last_copies"),
    [
        (image(t=[((1,), (1,)), ((2,), (2,))]), (T0,)),
        (image(t=[((1, 2), (1, 2)), ((1, 2), (1,))]), (T1,)),
        # The other one is in sync, and dead: no broker can read its disk.
        (image(live=(1, 3), t=[((1, 2), (1, 2)), ((1, 3), (1, 3))]), (T0,)),
        (image(live=(1, 3), t=[((1, 2), (2,))]), (T0,)),
    ],
)
def test_what_no_other_broker_has_in_sync(of: ClusterImage, last_copies: tuple[TopicPartition, ...]) -> None:
    assert risk(of, needed=1).last_copies == last_copies


def test_the_risk_is_found_once_for_each_image_and_settings() -> None:
    asked: list[str] = []

    def needed(topic: str) -> int:
        asked.append(topic)
        return 2

    known = LatestRisk()
    safe, unsafe = image(t=[((1, 2, 3), (1, 2, 3))]), image(t=[((1, 2, 3), (1, 2))])
    settings, others = object(), object()
    for _ in range(3):
        assert known.of(safe, settings, 1, min_insync_replicas=needed).can_restart
    assert asked == ["t"]
    assert not known.of(unsafe, settings, 1, min_insync_replicas=needed).can_restart
    assert not known.of(unsafe, others, 1, min_insync_replicas=needed).can_restart
    assert asked == ["t", "t", "t"]


async def test_a_broker_cut_off_from_controllers_does_not_use_its_last_image() -> None:
    cluster = await WholeCluster.start(entries={"min.insync.replicas": "2"})
    assert await cluster.create_topic("t", partitions=1, replicas=3) == 0
    broker, known = cluster.brokers[1], LatestRisk()
    assert (await restart_answer(broker, known))["can_restart"]
    for controller in cluster.controllers:
        cluster.network.part(cluster.host(1), cluster.host(controller))
    await cluster.kill_broker(2)
    # Of which the first hears nothing: it would call the restart safe.
    assert 2 in broker.images.current.brokers
    answer = await restart_answer(broker, known)
    assert not answer["can_restart"]
    assert "no controller" in str(answer["reason"])
    cluster.network.heal()
    await cluster.until(lambda: 2 not in broker.images.current.brokers)
    assert (await restart_answer(broker, known))["partitions"] == ["t-0"]
