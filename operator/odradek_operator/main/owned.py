"""Watches of what Clusters and Mirrors are made of: an object that is deleted or edited wakes its resource at once.

kopf watches resources and their sets. It filters by label on this side, and would bring every ConfigMap and Service of
every namespace; here the API server filters.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from odradek_operator.desired.names import CLUSTER_LABEL, MANAGED_BY, MANAGED_BY_LABEL, MIRROR_LABEL
from odradek_operator.foundation.keys import Key
from odradek_operator.gateways.kubernetes import (
    CLUSTERS,
    CONFIG_MAPS,
    DISRUPTION_BUDGETS,
    MIRRORS,
    NETWORK_POLICIES,
    SERVICE_ACCOUNTS,
    SERVICES,
    Api,
    KubernetesError,
    WatchableKubernetes,
    metadata,
)

logger = logging.getLogger(__name__)

KINDS: Final = (SERVICES, CONFIG_MAPS, SERVICE_ACCOUNTS, DISRUPTION_BUDGETS, NETWORK_POLICIES)
PAUSE_SECONDS_MIN: Final = 1.0
PAUSE_SECONDS_MAX: Final = 60.0


class OwnedWatches:
    """One watch for each kind and namespace; no namespaces stand for all."""

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
