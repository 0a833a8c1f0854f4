"""The running operator: waits for the Lease, then lets kopf watch and the workers work, until one of them ends.

Whatever ends first ends all, and the process with it: Kubernetes starts it again, and it begins from what is there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import kopf

from odradek.foundation.metrics import Sample, Source
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
from odradek_operator.foundation.watches import Watches
from odradek_operator.gateways.every_namespace import list_everywhere
from odradek_operator.gateways.kubernetes import (
    APIS,
    CLUSTERS,
    Api,
    KubernetesError,
    WatchableKubernetes,
    metadata,
)
from odradek_operator.main.http import HttpServer
from odradek_operator.main.lease import Lease
from odradek_operator.main.owned import OwnedWatches
from odradek_operator.main.requests import requested
from odradek_operator.main.watching import Watching
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
        self._watches = Watches(self._reconcilers, self._time)
        self._watching = Watching(
            settings, self._kinds, wake=self.queue.add, watches=self._watches, login=login
        )
        self._owned = OwnedWatches(kubernetes, settings.namespaces, wake=self.queue.add)
        self._lease = Lease(
            kubernetes,
            namespace=settings.home,
            name=settings.lease_name,
            identity=settings.identity,
            seconds=settings.lease_seconds,
            pod=settings.pod,
        )
        self._leading = False
        self.http = HttpServer(
            host=settings.http_host,
            port=settings.http_port,
            sources=(
                self._samples,
                self._counts.samples,
                self._conditions.samples,
                self._watches.samples,
                *sources,
            ),
            sick=self._watches.dead,
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

    async def _lead(self, tasks: TaskOwner, stopping: asyncio.Task[Any]) -> None:
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
                found = await requested(self._kubernetes, self._settings.namespaces)
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
        self._watches.listed(api.kind, versions)

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
