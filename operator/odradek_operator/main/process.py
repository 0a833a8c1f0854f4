"""The running operator: waits for the Lease, then lets kopf watch and the workers work, until one of them ends.

Whatever ends first ends all, and the process with it: Kubernetes starts it again, and it begins from what is there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from aiohttp import web

from odradek.foundation.exposition import Exposition
from odradek.foundation.metrics import MetricsRegistry, Sample, Source, process_samples
from odradek.foundation.tasks import TaskOwner
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
from odradek_operator.gateways.every_namespace import list_everywhere
from odradek_operator.gateways.kubernetes import (
    APIS,
    CLUSTERS,
    Api,
    EventType,
    Kubernetes,
    KubernetesError,
    metadata,
)
from odradek_operator.handlers.events import children_of
from odradek_operator.main.lease import OperatorLease
from odradek_operator.main.watches import NamespaceWatches
from odradek_operator.main.watching import KopfWatching, LogIn
from odradek_operator.reconcilers.reconciler import Environment, Reconciler

logger = logging.getLogger(__name__)

Reconcilers = Callable[[Environment], Mapping[str, Reconciler]]
"""Makes the reconcilers, by kind."""
Check = Callable[[], Awaitable[set[Key]]]
"""Looks at what no watch brings, and answers with what must be looked at. May raise KubernetesError."""


class Operator:
    """One process. `reconcilers` are made for it, `login` is for kopf's watches; `checks` run every few seconds."""

    def __init__(
        self,
        settings: OperatorSettings,
        kubernetes: Kubernetes,
        *,
        reconcilers: Reconcilers,
        login: LogIn,
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
        self._watches = NamespaceWatches(
            settings.namespaces,
            (*self._kinds, *children_of(self._kinds)),
            watch=KopfWatching(self._kinds, wake=self.queue.add, login=login),
            report=self._report,
        )
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
            not_ready=self._not_ready,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set. Raises LeaseLost, OSError, WatchesEnded."""
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
            tasks.start(self._look_for_ever(), name="look at what no watch brings"),
        }
        if self._settings.lease:
            at_work.add(tasks.start(self._lease.keep(), name="keep the Lease"))
        watching = tasks.start(self._watches.run(), name="watches")
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
        while CLUSTERS in self._kinds and self._checks:
            await asyncio.sleep(self._settings.looks_seconds)
            for check in self._checks:
                try:
                    found = await check()
                except KubernetesError as failure:
                    logger.warning("brokers' pods or budgets cannot be read now: %s", failure)
                    continue
                for key in found:
                    self.queue.add(key)
        await asyncio.Event().wait()

    async def resync(self, api: Api) -> None:
        """List one kind, and put all of it into the queue. Raises KubernetesError."""
        for body in await list_everywhere(self._kubernetes, api, self._settings.namespaces):
            self.queue.add(Key(api.kind, metadata(body)["namespace"], metadata(body)["name"]))

    async def _report(self, type: EventType, reason: str, message: str) -> None:
        if self._lease.held is not None:
            await self._kubernetes.record_event(self._lease.held, type, reason, message)

    def _not_ready(self) -> str | None:
        if self._leading:
            return self._watches.find_problem()
        # One that stands by is ready too: a rollout would wait for ever for a second leader. Before it knows whether it
        # does, it may lead in a moment, and would then be unready until its watches are heard.
        return None if self._lease.stands_by else "whether another holds the Lease is not known yet"

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
    """The operator's own port: /metrics, /healthz (the process lives), /readyz.

    `not_ready` says what is wrong, or None.
    """

    def __init__(
        self,
        *,
        host: str,
        port: int,
        sources: Iterable[Source],
        not_ready: Callable[[], str | None],
    ) -> None:
        self._host = host
        self._port = port
        self._registry = MetricsRegistry()
        for source in (*sources, process_samples):
            self._registry.register(source)
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
        return _answer(None, "ok")

    async def _serve_readiness(self, _: web.Request) -> web.Response:
        return _answer(self._not_ready(), "ready")


def _answer(problem: str | None, good: str) -> web.Response:
    return web.Response(status=200 if problem is None else 503, text=f"{problem or good}\n")
