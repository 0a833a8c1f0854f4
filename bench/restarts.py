"""What a producer notices while each broker of a cluster is stopped cleanly and started again, one after the other.

A record at a time goes to each of 100 partitions with three replicas, evenly, with acks=all. The result is, for each
restart, the longest that any record waited for its acknowledgement, and how many were refused.
"""

from __future__ import annotations

import json
import statistics
import time

from confluent_kafka.admin import AdminClient

from bench.clusters import REPLICAS, AnyCluster, OurCluster, kafka_cluster
from bench.failover import await_in_sync
from bench.peers import fresh_topic, storage
from bench.rounds import say
from tests.support.steady_load import SteadyLoad

PARTITIONS = 100
PER_SECOND = 1_000
_QUIET_SECONDS = 3.0


def restart_in_turn(*, rounds: int, disk: str | None, is_json: bool) -> int:
    """Print what was noticed of both clusters."""
    for make in (OurCluster, kafka_cluster):
        with storage(disk) as folder:
            cluster = make(folder)
            try:
                cluster.start()
                found = _restarts(cluster, rounds)
            finally:
                cluster.close()
        if is_json:
            print(json.dumps({"cluster": cluster.name, **found}))
        else:
            print(f"{cluster.name}: {found}", flush=True)
    return 0


def _restarts(cluster: AnyCluster, rounds: int) -> dict[str, float]:
    with fresh_topic(cluster, PARTITIONS, replicas=REPLICAS) as topic:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
        await_in_sync(admin, topic)
        load = SteadyLoad(cluster.bootstrap, topic, partitions=PARTITIONS, per_second=PER_SECOND)
        time.sleep(_QUIET_SECONDS)
        load.forget()
        time.sleep(_QUIET_SECONDS)
        undisturbed = load.forget()
        longest = []
        for number in range(rounds):
            for broker in cluster.brokers.values():
                broker.stop()
                broker.start()
                await_in_sync(admin, topic)
                time.sleep(1)  # what the return of a broker does is its restart's too
                longest.append(load.forget() * 1000)
                say(f"round {number + 1} of {rounds}: {cluster.name}, {longest[-1]:.0f} ms")
        load.stop()
    return {
        "acknowledged": load.acknowledged,
        "refused": len(load.failed),
        "undisturbed_ms": round(undisturbed * 1000),
        "longest_ms_median": round(statistics.median(longest)),
        "longest_ms_max": round(max(longest)),
    }
