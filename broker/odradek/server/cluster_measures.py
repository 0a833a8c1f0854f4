"""What a scrape of /metrics reads of a cluster: of its controllers, and of a broker besides what every broker has."""

from __future__ import annotations

import platform
from collections.abc import Iterator

from odradek.cluster.image import NO_LEADER
from odradek.foundation import metrics
from odradek.foundation.metrics import MetricsRegistry, Sample
from odradek.handlers.counters import LATENCY_BOUNDS_SECONDS
from odradek.protocol.api import ApiKey
from odradek.server.cluster_broker import ClusterBroker
from odradek.server.controller_process import ControllerProcess


def register_broker(broker: ClusterBroker, registry: MetricsRegistry) -> None:
    """Let `registry` ask a broker what it has because it is one of several."""
    registry.register(lambda: _membership(broker) if broker.is_serving else iter(()))


def _membership(broker: ClusterBroker) -> Iterator[Sample]:
    yield metrics.IS_FENCED.sample(int(broker.is_fenced))
    yield metrics.CLUSTER_CHANGES_APPLIED.sample(broker.follower.changes)
    yield metrics.FORWARDED_REQUESTS.sample(broker.remote.forwarded)


def register_controller(controller: ControllerProcess, registry: MetricsRegistry) -> None:
    """Let `registry` ask everything of a controller."""
    registry.register(_build)
    registry.register(metrics.process_samples)
    registry.register(lambda: _requests(controller))
    registry.register(lambda: _term(controller))


def _build() -> Iterator[Sample]:
    from odradek import __version__

    yield metrics.BUILD_INFO.sample(1, __version__, platform.python_version())


def _requests(controller: ControllerProcess) -> Iterator[Sample]:
    for api_key, counters in enumerate(controller.counters.by_api):
        if counters.requests or counters.failures:
            api = ApiKey(api_key).name
            yield metrics.REQUESTS.sample(counters.requests, api)
            yield metrics.REQUEST_FAILURES.sample(counters.failures, api)
            yield metrics.REQUEST_SECONDS.distribution(
                LATENCY_BOUNDS_SECONDS, counters.buckets, counters.seconds, api
            )
    yield metrics.MALFORMED_REQUESTS.sample(controller.counters.malformed)


def _term(controller: ControllerProcess) -> Iterator[Sample]:
    yield metrics.IS_CONTROLLER.sample(int(controller.is_active))
    reign = controller.reign
    if reign is None or not reign.is_active:
        return
    image = reign.images.current
    states = [state for topic in image.topics.values() for state in topic.partitions]
    yield metrics.CONTROLLER_EPOCH.sample(reign.term.epoch)
    yield metrics.CONTROLLER_FOLLOWERS.sample(len(reign.followers.known()))
    yield metrics.BROKERS.sample(len(image.brokers))
    yield metrics.TOPICS.sample(len(image.topics))
    yield metrics.PARTITIONS.sample(len(states))
    yield metrics.PARTITIONS_LEADERLESS.sample(sum(state.leader == NO_LEADER for state in states))
    yield metrics.PARTITIONS_UNDER_REPLICATED.sample(
        sum(len(state.isr) < len(state.replicas) for state in states)
    )
