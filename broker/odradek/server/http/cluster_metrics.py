"""The metrics of a cluster: those of a controller, and a broker's in addition to those of every broker."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.broker.process.broker_process import BrokerProcess
from odradek.broker.process.cluster_control import ClusterControl
from odradek.foundation import metrics
from odradek.foundation.metrics import MetricsRegistry, Sample
from odradek.metadata.image.image import NO_LEADER
from odradek.server.controller.controller_process import ControllerProcess
from odradek.server.http.broker_metrics import register_requests
from odradek.server.http.security_metrics import security_samples


def register_broker(broker: BrokerProcess[ClusterControl], registry: MetricsRegistry) -> None:
    """Register the metrics that a broker has only in a cluster."""
    registry.register(lambda: _membership(broker) if broker.is_serving else iter(()))
    registry.register(lambda: _replication(broker) if broker.is_serving else iter(()))


def _membership(broker: BrokerProcess[ClusterControl]) -> Iterator[Sample]:
    yield metrics.IS_FENCED.sample(int(broker.control.membership.is_fenced))
    yield metrics.REGISTRY_CONNECTED.sample(int(broker.control.membership.is_connected))
    yield metrics.REGISTRY_SILENT.sample(int(broker.control.outage.is_ongoing))
    yield metrics.CLUSTER_CHANGES_APPLIED.sample(broker.control.subscription.changes)
    yield metrics.FORWARDED_REQUESTS.sample(broker.control.controller.forwarded)


def _replication(broker: BrokerProcess[ClusterControl]) -> Iterator[Sample]:
    led = below = unconfirmed = 0
    lags: dict[int, int] = {}
    for partition in broker.partitions:
        leader = partition.leader
        if leader is None:
            continue
        led += 1
        unconfirmed += not leader.is_confirmed
        below += len(partition.replica.in_sync_replicas) < leader.in_sync_needed
        for replica, lag in leader.follower_lags().items():
            lags[replica] = max(lags.get(replica, 0), lag)
    yield metrics.PARTITIONS_LED.sample(led)
    yield metrics.PARTITIONS_UNCONFIRMED.sample(unconfirmed)
    yield metrics.PARTITIONS_BELOW_MIN_IN_SYNC.sample(below)
    for replica, lag in sorted(lags.items()):
        yield metrics.REPLICA_LAG_RECORDS.sample(lag, str(replica))
    yield metrics.IN_SYNC_SHRINKS.sample(broker.control.in_sync.shrinks)
    yield metrics.IN_SYNC_EXPANSIONS.sample(broker.control.in_sync.expansions)
    throttles = broker.partitions.context.throttles
    for side, throttle in (("leader", throttles.leader), ("follower", throttles.follower)):
        if throttle.rate is not None:
            yield metrics.REPLICATION_THROTTLE.sample(throttle.rate, side)
        yield metrics.THROTTLED_REPLICATION_BYTES.sample(throttle.bytes_total, side)
        yield metrics.THROTTLED_REPLICATION_HELD_BACK.sample(throttle.times_held_back, side)
    fetched: dict[int, list[int]] = {}
    for fetcher in broker.control.fetchers:
        row = fetched.setdefault(fetcher.leader, [0, 0, 0])
        row[0] += fetcher.requests
        row[1] += fetcher.failures
        row[2] += fetcher.bytes_in
    for leader_id, (requests, failures, bytes_in) in sorted(fetched.items()):
        yield metrics.REPLICA_FETCHES.sample(requests, str(leader_id))
        yield metrics.REPLICA_FETCH_FAILURES.sample(failures, str(leader_id))
        yield metrics.REPLICA_BYTES_IN.sample(bytes_in, str(leader_id))


def register_controller(controller: ControllerProcess, registry: MetricsRegistry) -> None:
    register_requests(controller.counters, controller.span_export, registry)
    registry.register(lambda: _term(controller))
    registry.register(
        lambda: (
            security_samples(controller.secured, [controller.listener]) if controller.is_serving else iter(())
        )
    )


def _term(controller: ControllerProcess) -> Iterator[Sample]:
    yield metrics.REGISTRY_CONNECTED.sample(int(controller.is_registry_connected))
    yield metrics.IS_CONTROLLER.sample(int(controller.is_active))
    active = controller.active_controller
    if active is None or not active.is_active:
        return
    image = active.images.current
    states = [state for topic in image.topics.values() for state in topic.partitions]
    yield metrics.CONTROLLER_EPOCH.sample(active.term.epoch)
    yield metrics.CONTROLLER_FOLLOWERS.sample(len(active.subscribers.list_known()))
    yield metrics.CONTROLLER_DEAD_BROKERS.sample(active.dead_brokers.removed)
    yield metrics.BROKERS.sample(len(image.brokers))
    yield metrics.TOPICS.sample(len(image.topics))
    yield metrics.PARTITIONS.sample(len(states))
    yield metrics.PARTITIONS_LEADERLESS.sample(sum(state.leader == NO_LEADER for state in states))
    yield metrics.PARTITIONS_UNDER_REPLICATED.sample(
        sum(
            len(set(state.isr) - set(state.adding)) < len(state.replicas) - len(state.adding)
            for state in states
        )
    )
    yield metrics.PARTITIONS_REASSIGNING.sample(sum(bool(state.adding or state.removing) for state in states))
