"""Reconciles resources of one kind in batches, one batch for each cluster.

The queue brings resources one by one. The first one starts a batch of all due resources of its cluster. Due are those
that have changed, and those that were not reconciled for a while. The batch lists the resources once and reads the
cluster once. When the queue brings the others, they are already reconciled in their present version, and need no work.

So a thousand resources cost a few batches, and no resource waits for a batch to fill. A cluster that does not answer
delays only its own resources.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakValueDictionary

from odradek_operator.foundation.keys import Key
from odradek_operator.gateways.kubernetes import Api, Json, metadata
from odradek_operator.reconcilers.reconciler import Environment, key_of

# A resource in the version that its last batch left is not reconciled again sooner: the batch's own writes come back as
# events. The resync comes later than this, so that it does reconcile, and finds changes without an event.
UNCHANGED_SECONDS_MAX: Final = 150.0
FAILED_AGAIN_SECONDS: Final = 1.0
# Resources that are gone and settled, and whose own turn comes later. It looks once more where the note is gone.
SETTLED_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """The state of a resource after a batch: its version, and the seconds until it is due without an event."""

    key: Key
    version: str
    again_seconds: float | None


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The results of a batch. `failures` are to be tried again soon. Of the resources `settled` nothing is left."""

    done: Sequence[Outcome] = ()
    settled: Sequence[Key] = ()
    failures: Mapping[Key, Exception] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Reconciled:
    version: str
    at: float
    again_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Resources of a namespace that name one cluster: `bodies` are all of the kind there, `due` those to reconcile.

    `gone` is the name of a resource that is not there any more, in a batch for what it has left.
    """

    namespace: str
    cluster: str
    bodies: Sequence[Json]
    due: Sequence[Json] = ()
    gone: str | None = None


RunBatch = Callable[[Batch], Awaitable[Outcomes]]
FindOwing = Callable[[Key], Awaitable[Sequence[str]]]
"""The clusters that may have something left of a resource that is gone. Raises KubernetesError."""


class BatchReconciler:
    """The reconciler of one kind."""

    def __init__(
        self, environment: Environment, api: Api, run_batch: RunBatch, find_owing: FindOwing
    ) -> None:
        self._environment = environment
        self._api = api
        self._run = run_batch
        self._find_owing = find_owing
        self._reconciled: dict[Key, _Reconciled] = {}
        # Resources that are gone, until their own turn comes: one batch settles all that are gone by then.
        self._settled: set[Key] = set()
        # A lock is there for as long as a batch holds it or waits for it: users make up the names of clusters.
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one resource, and others that are due. Raises KubernetesError and the failure of this resource."""
        body = await self._environment.kubernetes.get(self._api, key.namespace, key.name)
        if body is None:
            self._forget(key)
            await self._settle_gone(key)
            return None
        self._settled.discard(key)
        if self._is_due(key, body):
            cluster = _cluster_of(body)
            async with self._lock(key.namespace, cluster):
                # The batch that held the lock before may have reconciled it in its present version.
                if await self._read_if_due(key) is not None:
                    await self._run_batch(key, cluster)
        return self._retry_after_seconds(key)

    async def _read_if_due(self, key: Key) -> Json | None:
        """The resource, if it is due; None when it is not, or is gone."""
        body = await self._environment.kubernetes.get(self._api, key.namespace, key.name)
        if body is None:
            self._forget(key)
            return None
        return body if self._is_due(key, body) else None

    async def _settle_gone(self, key: Key) -> None:
        """Look at what a resource that is gone has left."""
        if key in self._settled:
            self._settled.discard(key)
            return
        for cluster in await self._find_owing(key):
            async with self._lock(key.namespace, cluster):
                bodies = await self._environment.kubernetes.list(self._api, key.namespace)
                batch = Batch(namespace=key.namespace, cluster=cluster, bodies=bodies, gone=key.name)
                outcomes = await self._run(batch)
                if len(self._settled) + len(outcomes.settled) > SETTLED_MAX:
                    self._settled.clear()
                self._settled.update(one for one in outcomes.settled if one != key)

    def _lock(self, namespace: str, cluster: str) -> asyncio.Lock:
        """No two batches of one cluster run at the same time."""
        return self._locks.setdefault((namespace, cluster), asyncio.Lock())

    def _is_due(self, key: Key, body: Json) -> bool:
        known = self._reconciled.get(key)
        if known is None or known.version != metadata(body)["resourceVersion"]:
            return True
        if key in self._environment.stale:
            return True
        now = self._time()
        return (
            known.again_at is not None and now >= known.again_at
        ) or now - known.at > UNCHANGED_SECONDS_MAX

    def _retry_after_seconds(self, key: Key) -> float | None:
        known = self._reconciled.get(key)
        if known is None or known.again_at is None:
            return None
        return max(0.0, known.again_at - self._time())

    def _forget(self, key: Key) -> None:
        self._reconciled.pop(key, None)
        self._environment.stale.discard(key)
        self._environment.conditions.forget(key)

    async def _run_batch(self, key: Key, cluster: str) -> None:
        bodies = await self._environment.kubernetes.list(self._api, key.namespace)
        self._forget_gone(key.namespace, bodies)
        due = [
            body
            for body in bodies
            if key_of(body) == key or (_cluster_of(body) == cluster and self._is_due(key_of(body), body))
        ]
        # Before the batch reads anything: what becomes stale from here on is for the next batch.
        stale = self._environment.stale.intersection(map(key_of, due))
        self._environment.stale.difference_update(stale)
        try:
            outcomes = await self._run(
                Batch(namespace=key.namespace, cluster=cluster, bodies=bodies, due=due)
            )
        except BaseException:
            self._environment.stale.update(stale)
            raise
        ended = self._time()
        for outcome in outcomes.done:
            again_at = None if outcome.again_seconds is None else ended + outcome.again_seconds
            self._reconciled[outcome.key] = _Reconciled(outcome.version, ended, again_at)
            if again_at is not None and outcome.key != key:
                self._environment.wake(outcome.key, after_seconds=outcome.again_seconds)
        for failed in outcomes.failures:
            self._reconciled.pop(failed, None)
            if failed != key:
                self._environment.wake(failed, after_seconds=FAILED_AGAIN_SECONDS)
        if key in outcomes.failures:
            raise outcomes.failures[key]

    def _forget_gone(self, namespace: str, bodies: Sequence[Json]) -> None:
        there = {key_of(body) for body in bodies}
        for key in [key for key in self._reconciled if key.namespace == namespace and key not in there]:
            self._forget(key)

    def _time(self) -> float:
        return asyncio.get_running_loop().time()


def _cluster_of(body: Json) -> str:
    return str((body.get("spec") or {}).get("cluster") or "")
