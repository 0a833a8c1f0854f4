"""A whole cluster in one loop: elected controllers, brokers that follow them, clients that come to any broker."""

from tests.support.loop import run
from tests.support.whole_cluster import WholeCluster

NOT_LEADER_OR_FOLLOWER, NOT_CONTROLLER, TOPIC_ALREADY_EXISTS = 6, 41, 36


def test_a_topic_made_through_any_broker_is_seen_there_at_once_and_by_all() -> None:
    async def story() -> None:
        cluster = await WholeCluster.start()
        assert sum(one.is_active for one in cluster.controllers.values()) == 1
        for through in (1, 2, 3):
            assert await cluster.create_topic(f"t{through}", through=through) == 0
            assert f"t{through}" in cluster.image(through).topics
        await cluster.until(lambda: all(len(cluster.image(number).topics) == 3 for number in (1, 2, 3)))
        assert sorted(cluster.leaders("t1", seen_by=3)) == [1, 2, 3]
        assert await cluster.create_topic("t1", through=2) == TOPIC_ALREADY_EXISTS
        await cluster.stop()

    run(story())
