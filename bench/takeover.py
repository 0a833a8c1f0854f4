"""How fast a cluster decides: a dead controller's successor takes over, and a dead broker's partitions get leaders.

Both are timed from the end of the dead one's session in ZooKeeper, which a watch on its node reports. That time is a
setting. The cluster keeps many partitions with three replicas, on a real ZooKeeper.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from bench.clusters import REPLICAS, OurCluster
from bench.failover import PATIENCE_SECONDS
from bench.peers import storage
from bench.rounds import say
from tests.support.polling import SECONDS_MAX, wait_until

PARTITIONS_PER_TOPIC = 100
_TOPICS_PER_REQUEST = 10
_TICK_SECONDS = 0.005


def take_over(*, partitions: int, disk: str | None, is_json: bool) -> int:
    """Print both times."""
    with storage(disk) as folder:
        cluster = OurCluster(folder, session_ms=3_000)
        try:
            cluster.start()
            began = time.monotonic()
            topics = _create(cluster, partitions)
            say(f"{partitions} partitions made in {time.monotonic() - began:.1f} s")
            found = {
                "controller_seconds": _controller_seconds(cluster),
                "leaders_seconds": _leaders_seconds(cluster, topics),
            }
        finally:
            cluster.close()
    if is_json:
        print(json.dumps({"partitions": partitions, **found}))
    else:
        print(
            f"{partitions} partitions, from the end of the dead one's session: the next controller decides after "
            f"{found['controller_seconds']:.2f} s. All partitions of a dead broker have leaders in clients' metadata "
            f"after {found['leaders_seconds']:.2f} s"
        )
    return 0


def _create(cluster: OurCluster, partitions: int) -> list[str]:
    names = [f"t-{number}" for number in range(max(1, partitions // PARTITIONS_PER_TOPIC))]
    admin = _admin(cluster.bootstrap)
    for start in range(0, len(names), _TOPICS_PER_REQUEST):
        wanted = [
            NewTopic(name, min(partitions, PARTITIONS_PER_TOPIC), REPLICAS)
            for name in names[start : start + _TOPICS_PER_REQUEST]
        ]
        for future in admin.create_topics(wanted, operation_timeout=60, request_timeout=60).values():
            future.result(PATIENCE_SECONDS)
    for name in names:
        wait_until(
            f"another broker leads {name}",
            partial(_is_led, admin, name, but_by=0),
            pause_seconds=_TICK_SECONDS,
        )
    return names


def _controller_seconds(cluster: OurCluster) -> float:
    """The active controller is killed: until a broker names the next one to its clients."""
    admin = _admin(cluster.bootstrap)
    dead = cluster.active_controller()
    with _ended(cluster, "/controller") as ended_at:
        cluster.controllers[dead].kill()
        (next_one,) = cluster.controllers.keys() - {dead}

        def decides() -> bool:
            controller = admin.describe_cluster(request_timeout=10).result(SECONDS_MAX).controller
            # The other is the controller as soon as it is in the registry; it decides once it has read everything.
            return (
                controller is not None
                and f"controller {next_one} decides" in cluster.controllers[next_one].log()
            )

        wait_until("a controller decides", decides, pause_seconds=_TICK_SECONDS)
        done_at = time.monotonic()
        seconds = done_at - ended_at()
    cluster.controllers[dead].start()
    return seconds


def _leaders_seconds(cluster: OurCluster, topics: list[str]) -> float:
    """Broker 1 is killed: until another names living leaders for all partitions."""
    admin = _admin(cluster.brokers[2].bootstrap)
    with _ended(cluster, "/brokers/ids/1") as ended_at:
        cluster.brokers[1].kill()
        for name in topics:
            wait_until(
                f"another broker leads {name}",
                partial(_is_led, admin, name, but_by=1),
                pause_seconds=_TICK_SECONDS,
            )
        done_at = time.monotonic()
        return done_at - ended_at()


def _is_led(admin: AdminClient, topic: str, *, but_by: int) -> bool:
    partitions: Any = admin.list_topics(topic, timeout=30).topics[topic].partitions
    return bool(partitions) and all(one.leader not in (-1, but_by) for one in partitions.values())


@contextmanager
def _ended(cluster: OurCluster, path: str) -> Iterator[Callable[[], float]]:
    """Gives when the node went, once it has."""
    client = KazooClient(hosts=cluster.connect)
    client.start()
    gone = threading.Event()
    at: list[float] = []

    def on_event(event: Any) -> None:
        del event
        at.append(time.monotonic())
        gone.set()

    assert client.exists(path, watch=on_event) is not None, f"{path} is not there"

    def ended_at() -> float:
        assert gone.wait(PATIENCE_SECONDS), f"{path} does not go"
        return at[0]

    try:
        yield ended_at
    finally:
        client.stop()
        client.close()


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
