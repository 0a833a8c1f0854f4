"""kopf's registry for this operator: an event of a resource, or of what belongs to one, wakes that resource's key.

Only `on.event` is used. So kopf adds no finalizers and no annotations, keeps no timer for an object, and an operator
that is gone holds nothing up.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final

import kopf

from odradek_operator.desired.names import CLUSTER_LABEL, MANAGED_BY, MANAGED_BY_LABEL, MIRROR_LABEL
from odradek_operator.foundation.keys import Key
from odradek_operator.gateways.kubernetes import (
    CLUSTERS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    MIRRORS,
    NETWORK_POLICIES,
    PODS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    Api,
)
from odradek_operator.reconcilers.cluster.facts import asks_for_replacement, asks_for_roll

OWNERS: Final = {CLUSTER_LABEL: CLUSTERS, MIRROR_LABEL: MIRRORS}
CHILDREN: Final = (
    STATEFUL_SETS, DEPLOYMENTS, SERVICES, CONFIG_MAPS, SERVICE_ACCOUNTS, DISRUPTION_BUDGETS, NETWORK_POLICIES, PODS,
)  # fmt: skip
SELECTOR: Final = f"{MANAGED_BY_LABEL}={MANAGED_BY}"
"""What the API server selects the children by: all ConfigMaps of all namespaces would arrive without."""

Wake = Callable[[Key], None]


def children_of(kinds: Collection[Api]) -> Collection[Api]:
    """The kinds of which resources of `kinds` are made."""
    return CHILDREN if any(owner in kinds for owner in OWNERS.values()) else ()


def registry_of(
    kinds: Collection[Api], *, wake: Wake, login: Callable[[], Awaitable[kopf.AiohttpSession]]
) -> kopf.OperatorRegistry:
    """The registry with a handler for each kind of ours, and for each kind that Clusters and Mirrors are made of."""
    registry = kopf.OperatorRegistry()

    async def log_in(**_: Any) -> kopf.AiohttpSession:
        return await login()

    kopf.on.login(registry=registry)(log_in)
    for api in kinds:
        _watch_resource(registry, api, wake=wake)
    for api in children_of(kinds):
        _watch_child(registry, api, wake=wake)
    return registry


def group_and_version(api: Api) -> tuple[str, str]:
    group, _, version = api.group_version.rpartition("/")
    return group, version


def _watch_resource(registry: kopf.OperatorRegistry, api: Api, *, wake: Wake) -> None:
    # A coroutine function: kopf would run what is none in yet another thread.
    async def wake_resource(namespace: str | None, name: str | None, **_: Any) -> None:
        wake(Key(api.kind, namespace or "", name or ""))

    kopf.on.event(*group_and_version(api), api.plural, registry=registry, id=f"{api.plural}-changed")(
        wake_resource
    )


def _watch_child(registry: kopf.OperatorRegistry, api: Api, *, wake: Wake) -> None:
    async def wake_owner(event: Any, labels: Any, namespace: str | None, **_: Any) -> None:
        pod = event["object"]
        # Events of sets stand for most of what happens to pods.
        if api == PODS and not (asks_for_replacement(pod) or asks_for_roll(pod)):
            return
        for label, owner in OWNERS.items():
            if label in labels:
                wake(Key(owner.kind, namespace or "", labels[label]))

    kopf.on.event(
        *group_and_version(api), api.plural, registry=registry, id=f"{api.plural}-of-owner-changed"
    )(wake_owner)
