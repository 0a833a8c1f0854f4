"""From the command line to a running operator: the gateways, the reconcilers of all kinds, the loop."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from odradek.foundation import event_loop
from odradek_operator.foundation.settings import OperatorSettings
from odradek_operator.gateways.api_server import ApiServerGateway
from odradek_operator.gateways.brokers import BrokerClients
from odradek_operator.gateways.cluster_admin import ClusterAdmin, HttpClusterAdmin
from odradek_operator.gateways.kubernetes import (
    CLUSTERS,
    CONSUMER_GROUPS,
    MIRRORS,
    TOPICS,
    USERS,
    Json,
    Kubernetes,
    NoAccess,
)
from odradek_operator.gateways.mirrors import HttpMirrorWorkers, MirrorWorkers
from odradek_operator.gateways.record_times import RecordTimes
from odradek_operator.main.access import configure, load, log_in
from odradek_operator.main.lease import LeaseLost
from odradek_operator.main.process import Operator
from odradek_operator.main.watches import WatchesEnded
from odradek_operator.reconcilers.addresses import bootstrap_of
from odradek_operator.reconcilers.cluster.reconciler import ClusterReconciler
from odradek_operator.reconcilers.cluster.rolling.evictions import find_outdated_budgets
from odradek_operator.reconcilers.consumer_group.run import group_kind
from odradek_operator.reconcilers.mirror.reconciler import MirrorReconciler
from odradek_operator.reconcilers.reconciler import Environment, Reconciler
from odradek_operator.reconcilers.rounds import make_reconciler
from odradek_operator.reconcilers.topic.run import TOPIC_KIND
from odradek_operator.reconcilers.user.run import USER_KIND

logger = logging.getLogger(__name__)
T = TypeVar("T")


def reconcilers_of(
    environment: Environment,
    *,
    settings: OperatorSettings,
    brokers: BrokerClients,
    admin: ClusterAdmin,
    record_times: RecordTimes,
    workers: MirrorWorkers,
) -> Mapping[str, Reconciler]:
    """The reconcilers of all kinds, by kind."""

    def bootstrap(cluster: Json) -> str:
        return bootstrap_of(cluster, cluster_domain=settings.cluster_domain)

    return {
        CLUSTERS.kind: ClusterReconciler(environment, admin=admin, settings=settings),
        TOPICS.kind: make_reconciler(environment, TOPIC_KIND, brokers=brokers, bootstrap=bootstrap),
        CONSUMER_GROUPS.kind: make_reconciler(
            environment, group_kind(record_times), brokers=brokers, bootstrap=bootstrap
        ),
        USERS.kind: make_reconciler(environment, USER_KIND, brokers=brokers, bootstrap=bootstrap),
        MIRRORS.kind: MirrorReconciler(environment, workers=workers, settings=settings),
    }


def run_operator(settings: OperatorSettings) -> int:
    """Run until a signal; the answer is the exit code."""
    try:
        event_loop.run(_run(settings))
    except NoAccess as problem:
        logger.error("%s", problem)
        return 1
    except LeaseLost as problem:
        logger.error("%s; this process ends, so that only one acts", problem)
        return 1
    except WatchesEnded as problem:
        logger.error("%s; this process ends, and the next one starts again", problem)
        return 1
    return 0


async def _run(settings: OperatorSettings) -> None:
    if not settings.home:
        settings = replace(settings, home=(await asyncio.to_thread(load)).namespace)
    brokers = BrokerClients()
    admin = HttpClusterAdmin(brokers)
    record_times = RecordTimes()
    workers = HttpMirrorWorkers()
    async with ApiServerGateway(configure) as kubernetes:
        operator = Operator(
            settings,
            kubernetes,
            reconcilers=lambda environment: reconcilers_of(
                environment,
                settings=settings,
                brokers=brokers,
                admin=admin,
                record_times=record_times,
                workers=workers,
            ),
            login=log_in,
            sources=[kubernetes.samples],
            checks=[lambda: find_outdated_budgets(kubernetes, admin, settings.namespaces)],
        )
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        try:
            await operator.run(stop)
        finally:
            await workers.close()
            await record_times.close()
            await admin.close()
            await brokers.close()


async def with_kubernetes(use: Callable[[Kubernetes], Awaitable[T]]) -> T:
    """Call `use` with the API server of the kubeconfig, or of this pod. Raises NoAccess, KubernetesError."""
    async with ApiServerGateway(configure) as kubernetes:
        return await use(kubernetes)
