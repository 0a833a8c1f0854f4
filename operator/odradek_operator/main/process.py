"""The running operator: waits for the Lease, then lets kopf watch and the workers work, until one of them ends.

Whatever ends first ends all, and the process with it: Kubernetes starts it again, and it begins from what is there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

import kopf
from aiohttp import web

from odradek.foundation.exposition import Exposition
from odradek.foundation.metrics import MetricsRegistry, Sample, Source, process_samples
from odradek.foundation.tasks import TaskOwner
from odradek_operator.desired.names import CLUSTER_LABEL, MANAGED_BY, MANAGED_BY_LABEL, MIRROR_LABEL
from odradek_operator.foundation.keys import Key
from odradek_operator.foundation.metrics import (
    LEADING,
    QUEUE_AT_WORK,
    QUEUE_FAILING,
    QUEUE_WAITING,
    ConditionBook,
    ReconcileCounts,
)
from odradek_operator.foundation.queue import WorkQueue
from odradek_operator.foundation.settings import OperatorSettings
from odradek_operator.foundation.watches import WatchStates
from odradek_operator.gateways.every_namespace import list_everywhere
from odradek_operator.gateways.kubernetes import (
    APIS,
    CLUSTERS,
    CONFIG_MAPS,
    DISRUPTION_BUDGETS,
    FIELD_MANAGER,
    MIRRORS,
    NETWORK_POLICIES,
    PODS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Api,
    Kubernetes,
    KubernetesError,
    WatchableKubernetes,
    metadata,
)
from odradek_operator.main.lease import OperatorLease
from odradek_operator.main.watching import Watching
from odradek_operator.reconcilers.cluster.facts import asks_for_replacement, asks_for_roll
from odradek_operator.reconcilers.reconciler import Environment, Reconciler

logger = logging.getLogger(__name__)

KINDS: Final = (SERVICES, CONFIG_MAPS, SERVICE_ACCOUNTS, DISRUPTION_BUDGETS, NETWORK_POLICIES)
PAUSE_SECONDS_MIN: Final = 1.0
PAUSE_SECONDS_MAX: Final = 60.0

_PODS = {"app.kubernetes.io/managed-by": FIELD_MANAGER}

Reconcilers = Callable[[Environment], Mapping[str, Reconciler]]
"""Makes the reconcilers, by kind."""
Check = Callable[[], Awaitable[set[Key]]]
"""Looks at what no watch brings, and answers with what must be looked at. May raise KubernetesError."""


class Operator:
    """One process. `reconcilers` are made for it, `login` is for kopf's watches; `checks` run every few seconds."""

    def __init__(
        self,
        settings: OperatorSettings,
        kubernetes: WatchableKubernetes,
        *,
        reconcilers: Reconcilers,
        login: Callable[[], kopf.ConnectionInfo],
        sources: Sequence[Source] = (),
        checks: Sequence[Check] = (),
    ) -> None:
        self._settings = settings
        self._checks = checks
        self._kubernetes = kubernetes
        self._conditions = ConditionBook()
        self._counts = ReconcileCounts()
        self.queue = WorkQueue(self._reconcile, workers=settings.workers)
        environment = Environment(kubernetes=kubernetes, conditions=self._conditions, wake=self.queue.add)
        self._reconcilers = reconcilers(environment)
        self._kinds: tuple[Api, ...] = tuple(APIS[kind] for kind in self._reconcilers)
        self._watches = WatchStates(self._reconcilers, self._time)
        self._watching = Watching(
            settings, self._kinds, wake=self.queue.add, watches=self._watches, login=login
        )
        self._owned = OwnedWatches(kubernetes, settings.namespaces, wake=self.queue.add)
        self._lease = OperatorLease(
            kubernetes,
            namespace=settings.home,
            name=settings.lease_name,
            identity=settings.identity,
            seconds=settings.lease_seconds,
            pod=settings.pod,
        )
        self._leading = False
        self.http = OperatorHttpServer(
            host=settings.http_host,
            port=settings.http_port,
            sources=(
                self._samples,
                self._counts.samples,
                self._conditions.samples,
                self._watches.samples,
                *sources,
            ),
            sick=self._watches.find_dead_watch,
            not_ready=self._not_ready,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set. Raises LeaseLost, OSError, WatchesEnded, and what kopf ends with."""
        await self.http.start()
        tasks = TaskOwner("operator")
        try:
            stopping = tasks.start(stop.wait(), name="stop")
            if self._settings.lease:
                acquiring = tasks.start(self._lease.acquire(), name="acquire the Lease")
                await asyncio.wait({stopping, acquiring}, return_when=asyncio.FIRST_COMPLETED)
                if stop.is_set():
                    return
                acquiring.result()
            await self._lead(tasks, stopping)
        finally:
            await self.queue.close()
            await tasks.close()
            await self._lease.release()
            await self.http.stop()

    async def _lead(self, tasks: TaskOwner, stopping: asyncio.Task[object]) -> None:
        self._leading = True
        self.queue.start()
        at_work = {
            stopping,
            tasks.start(self._resync_for_ever(), name="resync"),
            tasks.start(self._look_for_ever(), name="look at pods"),
        }
        if CLUSTERS in self._kinds:
            at_work.add(tasks.start(self._owned.run(), name="watch what Clusters own"))
        if self._settings.lease:
            at_work.add(tasks.start(self._lease.keep(), name="keep the Lease"))
        watching = tasks.start(self._watching.run(), name="watches")
        ended, _ = await asyncio.wait({*at_work, watching}, return_when=asyncio.FIRST_COMPLETED)
        self._leading = False
        for task in ended:
            task.result()

    async def _reconcile(self, key: Key) -> float | None:
        began = self._time()
        outcome = "failed"
        try:
            after_seconds = await self._reconcilers[key.kind].reconcile(key)
            outcome = "done" if after_seconds is None else "again"
            return after_seconds
        finally:
            self._counts.add(key.kind, outcome, self._time() - began)

    async def _resync_for_ever(self) -> None:
        """Put every resource into the queue from time to time: what no event reported is noticed then."""
        while True:
            await asyncio.sleep(self._settings.resync_seconds)
            for api in self._kinds:
                try:
                    await self.resync(api)
                except KubernetesError as failure:
                    logger.warning("the resync of %s is left out this time: %s", api.kind, failure)

    async def _look_for_ever(self) -> None:
        """Look at what no watch brings: what people ask of pods."""
        while CLUSTERS in self._kinds:
            await asyncio.sleep(self._settings.looks_seconds)
            try:
                found = await find_requests(self._kubernetes, self._settings.namespaces)
                for check in self._checks:
                    found |= await check()
            except KubernetesError as failure:
                logger.warning("brokers' pods or budgets cannot be read now: %s", failure)
                continue
            for key in found:
                self.queue.add(key)
        await asyncio.Event().wait()

    async def resync(self, api: Api) -> None:
        """List one kind, and put all of it into the queue. Raises KubernetesError."""
        versions: list[str] = []
        for body in await list_everywhere(self._kubernetes, api, self._settings.namespaces):
            versions.append(str(metadata(body).get("resourceVersion", "")))
            self.queue.add(Key(api.kind, metadata(body)["namespace"], metadata(body)["name"]))
        self._watches.note_listed(api.kind, versions)

    def _not_ready(self) -> str | None:
        # One that stands by is ready too: a rollout would wait for ever for a second leader.
        if self._leading and not self._watching.is_up:
            return "the watches are not up yet"
        return None

    def _time(self) -> float:
        return asyncio.get_running_loop().time()

    def _samples(self) -> list[Sample]:
        return [
            LEADING.sample(int(self._leading)),
            QUEUE_WAITING.sample(self.queue.waiting),
            QUEUE_AT_WORK.sample(self.queue.at_work),
            QUEUE_FAILING.sample(self.queue.failing),
        ]


class OperatorHttpServer:
    """The operator's own port: /metrics, /healthz (restart me if not), /readyz.

    Serves while the process lives. `sick` and `not_ready` say what is wrong, or None.
    """

    def __init__(
        self,
        *,
        host: str,
        port: int,
        sources: Iterable[Source],
        sick: Callable[[], str | None],
        not_ready: Callable[[], str | None],
    ) -> None:
        self._host = host
        self._port = port
        self._registry = MetricsRegistry()
        for source in (*sources, process_samples):
            self._registry.register(source)
        self._sick = sick
        self._not_ready = not_ready
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen. Raises OSError when the port cannot be had."""
        application = web.Application()
        application.router.add_get("/metrics", self._serve_metrics)
        application.router.add_get("/healthz", self._serve_health)
        application.router.add_get("/readyz", self._serve_readiness)
        self._runner = web.AppRunner(application, access_log=None, handle_signals=False)
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, self._port).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def port(self) -> int:
        assert self._runner is not None
        return int(self._runner.addresses[0][1])

    async def _serve_metrics(self, request: web.Request) -> web.Response:
        exposition = Exposition(request.headers.get("Accept", ""))
        body = b"".join(exposition.parts(self._registry.collect()))
        return web.Response(body=body, headers={"Content-Type": exposition.content_type})

    async def _serve_health(self, _: web.Request) -> web.Response:
        return _answer(self._sick(), "ok")

    async def _serve_readiness(self, _: web.Request) -> web.Response:
        return _answer(self._not_ready(), "ready")


def _answer(problem: str | None, good: str) -> web.Response:
    return web.Response(status=200 if problem is None else 503, text=f"{problem or good}\n")


async def find_requests(kubernetes: Kubernetes, namespaces: Sequence[str]) -> set[Key]:
    """Requests for a pod: an annotation on it, which no watch brings.

    Watching pods would bring every pod of every namespace, with each of its probes' changes. So Clusters' pods are
    listed from time to time instead, with one request for the whole process. The Clusters of pods that carry a request
    are reconciled.

    The Clusters with a pod that is to be replaced; no namespaces stand for all. Raises KubernetesError.
    """
    found: set[Key] = set()
    for pod in await list_everywhere(kubernetes, PODS, namespaces, labels=_PODS):
        about = metadata(pod)
        cluster = (about.get("labels") or {}).get(CLUSTER_LABEL)
        if cluster and (asks_for_replacement(pod) or asks_for_roll(pod)):
            found.add(Key(CLUSTERS.kind, str(about["namespace"]), str(cluster)))
    return found


class OwnedWatches:
    """Watches of what Clusters and Mirrors are made of: an object that is deleted or edited wakes its resource at once.

    kopf watches resources and their sets. It filters by label on this side, and would bring every ConfigMap and Service
    of every namespace; here the API server filters.

    One watch for each kind and namespace; no namespaces stand for all.
    """

    def __init__(
        self, kubernetes: WatchableKubernetes, namespaces: Sequence[str], *, wake: Callable[[Key], None]
    ) -> None:
        self._kubernetes = kubernetes
        self._namespaces: Sequence[str | None] = namespaces or (None,)
        self._wake = wake

    async def run(self) -> None:
        """Watch until cancelled. A watch that fails is begun again after a pause."""
        async with asyncio.TaskGroup() as watches:
            for namespace in self._namespaces:
                for api in KINDS:
                    watches.create_task(self._watch_for_ever(api, namespace), name=f"watch {api.plural}")

    async def _watch_for_ever(self, api: Api, namespace: str | None) -> None:
        pause = PAUSE_SECONDS_MIN
        while True:
            try:
                await self._watch(api, namespace)
                pause = PAUSE_SECONDS_MIN
            except KubernetesError as failure:
                logger.warning("the watch of %s is begun again in %.0f s: %s", api.plural, pause, failure)
            await asyncio.sleep(pause)
            pause = min(2 * pause, PAUSE_SECONDS_MAX)

    async def _watch(self, api: Api, namespace: str | None) -> None:
        async for body in self._kubernetes.watch(api, namespace, labels={MANAGED_BY_LABEL: MANAGED_BY}):
            about = metadata(body)
            labels = about.get("labels") or {}
            for api, label in ((CLUSTERS, CLUSTER_LABEL), (MIRRORS, MIRROR_LABEL)):
                if label in labels:
                    self._wake(Key(api.kind, str(about["namespace"]), str(labels[label])))
