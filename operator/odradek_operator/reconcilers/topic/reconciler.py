"""Carries out what is decided about Topics, for all of a namespace at once.

The queue brings Topics one by one. The first to come begins a pass, and the pass takes in every Topic of the namespace
that has changed or was not looked at for a while, with one list of resources and one look at each cluster; the others
find, when it is their turn, that they were seen to as they are, and are done. So a thousand Topics cost a few passes,
and nothing waits for a batch to fill.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from odradek_operator.foundation.keys import Key
from odradek_operator.gateways.brokers import BrokerClients
from odradek_operator.gateways.kubernetes import TOPICS, Json, metadata
from odradek_operator.reconcilers.reconciler import Outside, key_of
from odradek_operator.reconcilers.topic.run import TopicsRun

logger = logging.getLogger(__name__)

Bootstrap = Callable[[Json], str]
"""Where a Cluster's brokers are, from the Cluster."""

# A Topic that is as it was is not looked at again so soon: what is written to it comes back as an event.
LOOKED_SECONDS_MIN: Final = 10.0
# Those that were not looked at for so long come along when another one is.
LOOKED_SECONDS_MAX: Final = 150.0


@dataclass(frozen=True, slots=True)
class _Looked:
    """A Topic as it was left: which version, when, and when it wants to be looked at again."""

    version: str
    at: float
    again_at: float | None


class TopicReconciler:
    """Of all Topics. `bootstrap` tells where a Cluster's brokers are reached."""

    def __init__(self, outside: Outside, *, brokers: BrokerClients, bootstrap: Bootstrap) -> None:
        self._outside = outside
        self._brokers = brokers
        self._bootstrap = bootstrap
        self._looked: dict[Key, _Looked] = {}
        self._passes: dict[str, asyncio.Lock] = {}

    async def reconcile(self, key: Key) -> float | None:
        """See to one Topic, and to others that are due. Raises KubernetesError."""
        body = await self._outside.kubernetes.get(TOPICS, key.namespace, key.name)
        if body is None:
            self._forget(key)
            return None
        if not self._is_due(key, body):
            return self._again(key)
        async with self._passes.setdefault(key.namespace, asyncio.Lock()):
            # Whoever had the pass before may have seen to it, as it is now.
            if self._is_due(key, body):
                await self._pass(key)
        return self._again(key)

    def _is_due(self, key: Key, body: Json) -> bool:
        looked = self._looked.get(key)
        if looked is None or looked.version != metadata(body)["resourceVersion"]:
            return True
        now = self._time()
        if looked.again_at is not None and now >= looked.again_at:
            return True
        return now - looked.at >= LOOKED_SECONDS_MIN

    def _again(self, key: Key) -> float | None:
        looked = self._looked.get(key)
        if looked is None or looked.again_at is None:
            return None
        return max(0.0, looked.again_at - self._time())

    def _forget(self, key: Key) -> None:
        self._looked.pop(key, None)
        self._outside.conditions.forget(key)

    async def _pass(self, key: Key) -> None:
        bodies = await self._outside.kubernetes.list(TOPICS, key.namespace)
        now = self._time()
        due = [body for body in bodies if self._comes_along(key, body, now)]
        self._forget_gone(key.namespace, bodies)
        run = TopicsRun(
            self._outside, key.namespace, bodies, brokers=self._brokers, bootstrap=self._bootstrap
        )
        for outcome in await run.see_to(due):
            again_at = None if outcome.again_seconds is None else now + outcome.again_seconds
            self._looked[outcome.key] = _Looked(outcome.version, now, again_at)
        if run.failures:
            # Those that went well are done; one failure stands for all, and each comes back by itself.
            for failed in run.failures:
                self._looked.pop(failed, None)
                if failed != key:
                    self._outside.wake(failed, after_seconds=1.0)
            if key in run.failures:
                raise run.failures[key]

    def _comes_along(self, key: Key, body: Json, now: float) -> bool:
        other = key_of(body)
        looked = self._looked.get(other)
        if other == key or looked is None or looked.version != metadata(body)["resourceVersion"]:
            return True
        return (
            looked.again_at is not None and now >= looked.again_at
        ) or now - looked.at > LOOKED_SECONDS_MAX

    def _forget_gone(self, namespace: str, bodies: Sequence[Json]) -> None:
        there = {key_of(body) for body in bodies}
        for key in [key for key in self._looked if key.namespace == namespace and key not in there]:
            self._forget(key)

    def _time(self) -> float:
        return asyncio.get_running_loop().time()
