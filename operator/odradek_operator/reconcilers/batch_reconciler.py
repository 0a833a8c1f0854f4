"""Resources of a cluster's contents, seen to for all of a cluster at once.

The queue brings resources one by one. The first to come begins a pass, and the pass takes in every one of its cluster
that has changed or was not looked at for a while, with one list of resources and one look at the cluster; the others
find, when it is their turn, that they were seen to as they are, and are done. So a thousand of them cost a few passes,
nothing waits for a batch to fill, and a cluster that does not answer holds up its own alone.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from odradek_operator.foundation.keys import Key
from odradek_operator.gateways.kubernetes import Api, Json, metadata
from odradek_operator.reconcilers.reconciler import Environment, key_of

# What is as it was left is not looked at again sooner: what was written to it comes back as an event. A resync, which
# is for changes that no event tells of, comes later; then all come along with the first one.
UNCHANGED_SECONDS_MAX: Final = 150.0
FAILED_AGAIN_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a resource was left: its version then, and in how many seconds it is to be looked at again unasked."""

    key: Key
    version: str
    again_seconds: float | None


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What came of a pass. `failures` are to be tried again soon."""

    done: Sequence[Outcome] = ()
    failures: Mapping[Key, Exception] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Reconciled:
    version: str
    at: float
    again_at: float | None


class BatchReconciler(ABC):
    """The reconciler of one kind; a subclass sees to the resources that are due."""

    def __init__(self, environment: Environment, api: Api) -> None:
        self._environment = environment
        self._api = api
        self._reconciled: dict[Key, _Reconciled] = {}
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}

    @abstractmethod
    async def reconcile_batch(self, namespace: str, bodies: Sequence[Json], due: Sequence[Json]) -> Outcomes:
        """Look at those that are `due` and act; `bodies` are all of the namespace."""

    async def reconcile(self, key: Key) -> float | None:
        """See to one resource, and to others that are due. Raises KubernetesError and what its own pass failed with."""
        body = await self._unseen(key)
        if body is not None:
            cluster = _cluster_of(body)
            async with self._locks.setdefault((key.namespace, cluster), asyncio.Lock()):
                # Whoever had the pass before may have seen to it, as it is now.
                if await self._unseen(key) is not None:
                    await self._pass(key, cluster)
        return self._again(key)

    async def _unseen(self, key: Key) -> Json | None:
        """The resource; None when it was left as it is, or is gone."""
        body = await self._environment.kubernetes.get(self._api, key.namespace, key.name)
        if body is None:
            self._forget(key)
            return None
        return body if self._is_due(key, body) else None

    def _is_due(self, key: Key, body: Json) -> bool:
        looked = self._reconciled.get(key)
        if looked is None or looked.version != metadata(body)["resourceVersion"]:
            return True
        if key in self._environment.stale:
            return True
        now = self._time()
        return (
            looked.again_at is not None and now >= looked.again_at
        ) or now - looked.at > UNCHANGED_SECONDS_MAX

    def _again(self, key: Key) -> float | None:
        looked = self._reconciled.get(key)
        if looked is None or looked.again_at is None:
            return None
        return max(0.0, looked.again_at - self._time())

    def _forget(self, key: Key) -> None:
        self._reconciled.pop(key, None)
        self._environment.stale.discard(key)
        self._environment.conditions.forget(key)

    async def _pass(self, key: Key, cluster: str) -> None:
        bodies = await self._environment.kubernetes.list(self._api, key.namespace)
        self._forget_gone(key.namespace, bodies)
        due = [
            body
            for body in bodies
            if key_of(body) == key or (_cluster_of(body) == cluster and self._is_due(key_of(body), body))
        ]
        # Before they are looked at: what becomes stale meanwhile is for the next pass.
        stale = self._environment.stale.intersection(map(key_of, due))
        self._environment.stale.difference_update(stale)
        try:
            outcomes = await self.reconcile_batch(key.namespace, bodies, due)
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
