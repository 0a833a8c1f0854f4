"""Kafka's verifiable clients on three brokers, one of which is stopped or killed and started again, over and over.

Each bounce stops the broker that leads a partition of the topic at that time, or the active controller. Every second
one is started again at once, the others when another leads instead. The next bounce waits until all replicas are in
sync: with min.insync.replicas=2 of three, the loss of one must cost nothing.

python -m tests.compat.three_brokers.bounces                20 of each kind, about ten minutes
python -m tests.compat.three_brokers.bounces --bounces 5    fewer
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient

from tests.support.cluster_processes import Cluster
from tests.support.peers import topic_creator
from tests.support.polling import wait_until
from tests.support.verifiable import Receiver, Sender, Verdict, judged
from tests.support.zookeeper import ZooKeeper

PARTITIONS = 3
REPLICAS = 3
RECORDS_PER_SECOND = 500
PATIENCE_SECONDS = 120.0
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "zookeeper.session.timeout.ms": "3000",
}
KINDS = ("leader stopped", "leader killed", "controller stopped", "controller killed")


def bounced(cluster: Cluster, folder: Path, *, bounces: Sequence[str], protocol: str = "classic") -> Verdict:
    """The verdict after `bounces`, each of KINDS, under load. All members run before and after."""
    topic = topic_creator(cluster.bootstrap)(PARTITIONS, replicas=REPLICAS, min_insync_replicas=2)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
    await_in_sync(admin, topic)
    receiver = Receiver(folder, cluster.bootstrap, topic, group=f"of-{topic}", protocol=protocol)
    sender = Sender(folder, cluster.bootstrap, topic, per_second=RECORDS_PER_SECOND)
    try:
        _await_progress(sender)
        for number, kind in enumerate(bounces):
            _bounce(cluster, admin, topic, kind, is_quick=number % 2 == 1)
            await_in_sync(admin, topic)
            _await_progress(sender)
        sender.stop()
        receiver.wait_for(set(sender.acknowledged), seconds_max=PATIENCE_SECONDS)
    finally:
        sender.stop()
        receiver.stop()
    return judged(sender, receiver)


def _bounce(cluster: Cluster, admin: AdminClient, topic: str, kind: str, *, is_quick: bool) -> None:
    """Ends one member and starts it again: at once if `is_quick`, else when another has taken its place."""
    what, _, how = kind.partition(" ")
    is_leader = what == "leader"

    def current() -> int:
        if is_leader:
            leader: int = partitions_of(admin, topic)[0].leader
            return leader
        return cluster.active_controller()

    number = current()
    member = (cluster.brokers if is_leader else cluster.controllers)[number]
    if is_quick:
        member.restart(crash=how == "killed")
        return
    _ = member.kill() if how == "killed" else member.stop()
    wait_until(f"somebody takes the place of {what} {number}", current, lambda seen: seen not in (number, -1))
    member.start()


def partitions_of(admin: AdminClient, topic: str) -> Any:
    """By number, as some broker's metadata has it."""
    return admin.list_topics(topic, timeout=30).topics[topic].partitions


def await_in_sync(admin: AdminClient, topic: str) -> None:
    """Until all partitions have a leader and all replicas in sync."""
    wait_until(
        f"the replicas of {topic} are in sync",
        lambda: all(
            one.leader > 0 and len(one.isrs) == REPLICAS for one in partitions_of(admin, topic).values()
        ),
    )


def _await_progress(sender: Sender) -> None:
    """Until more is acknowledged than was: the load continues."""
    wanted = len(sender.acknowledged) + RECORDS_PER_SECOND // 2

    def acknowledged() -> int:
        assert sender.is_running, f"the producer ended\n{sender.said()}"
        return len(sender.acknowledged)

    wait_until("more is acknowledged", acknowledged, lambda seen: seen >= wanted, more=sender.said)


@contextmanager
def running_cluster(folder: Path, settings: dict[str, str]) -> Iterator[Cluster]:
    """ZooKeeper, two controllers and three brokers of one's own."""
    zookeeper = ZooKeeper(folder / "zookeeper")
    zookeeper.start()
    cluster = Cluster(folder, zookeeper.connect, settings=settings)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()
        zookeeper.close()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bounces", type=int, default=20, help="of each kind (default: 20)")
    parser.add_argument("--only", choices=KINDS, nargs="+", default=KINDS)
    parser.add_argument("--protocol", choices=["classic", "consumer"], default="classic")
    arguments = parser.parse_args()
    is_clean = True
    with (
        tempfile.TemporaryDirectory(prefix="odradek-bounces-") as folder,
        running_cluster(Path(folder), SETTINGS) as cluster,
    ):
        for kind in arguments.only:
            began = time.monotonic()
            verdict = bounced(
                cluster,
                Path(folder) / kind.replace(" ", "-"),
                bounces=[kind] * arguments.bounces,
                protocol=arguments.protocol,
            )
            is_clean = is_clean and verdict.is_clean
            print(
                f"{kind} {arguments.bounces} times in {time.monotonic() - began:.0f} s: "
                f"{verdict.acknowledged} acknowledged, {len(verdict.lost)} lost, {len(verdict.twice)} twice, "
                f"{len(verdict.moved)} elsewhere, {len(verdict.failed)} refused, {verdict.redelivered} given "
                f"to the group again; longest pause {verdict.pause_seconds_max:.2f} s",
                flush=True,
            )
            if not verdict.is_clean:
                print(verdict)
    return 0 if is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
