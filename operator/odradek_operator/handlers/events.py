"""kopf's registry for this operator: an event of a resource, or of what belongs to one, wakes that resource's key.

Only `on.event` is used. So kopf adds no finalizers and no annotations, keeps no timer for an object, and an operator
that is gone holds nothing up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import kopf

from odradek_operator.desired.names import CLUSTER_LABEL, MIRROR_LABEL
from odradek_operator.foundation.keys import Key
from odradek_operator.gateways.kubernetes import CLUSTERS, DEPLOYMENTS, MIRRORS, STATEFUL_SETS, Api

# Pods themselves are not watched: all pods of all namespaces would arrive. Events of their sets stand for them.
CHILDREN: Final = (
    (STATEFUL_SETS, CLUSTERS, CLUSTER_LABEL),
    (DEPLOYMENTS, CLUSTERS, CLUSTER_LABEL),
    (DEPLOYMENTS, MIRRORS, MIRROR_LABEL),
)

Wake = Callable[[Key], None]
NoteWatched = Callable[[str, str], None]
"""Called for each object that a watch brings: its kind and resourceVersion."""


def registry_of(
    kinds: Iterable[Api], *, wake: Wake, note_watched: NoteWatched, login: Callable[[], kopf.ConnectionInfo]
) -> kopf.OperatorRegistry:
    """The registry with a handler for each kind of ours and for the sets that Clusters and Mirrors are made of."""
    registry = kopf.OperatorRegistry()

    def log_in(**_: Any) -> kopf.ConnectionInfo:
        return login()

    kopf.on.login(registry=registry)(log_in)
    for api in kinds:
        _watch_resource(registry, api, wake=wake, note_watched=note_watched)
    for api, owner, label in CHILDREN:
        _watch_children(registry, api, owner, label, wake=wake)
    return registry


def _watch_resource(
    registry: kopf.OperatorRegistry, api: Api, *, wake: Wake, note_watched: NoteWatched
) -> None:
    def wake_resource(event: Any, namespace: str | None, name: str | None, **_: Any) -> None:
        note_watched(api.kind, event["object"]["metadata"].get("resourceVersion", ""))
        wake(Key(api.kind, namespace or "", name or ""))

    group, _, version = api.group_version.partition("/")
    kopf.on.event(group, version, api.plural, registry=registry, id=f"{api.plural}-changed")(
        _make_async(wake_resource)
    )


def _watch_children(registry: kopf.OperatorRegistry, api: Api, owner: Api, label: str, *, wake: Wake) -> None:
    def wake_owner(labels: Any, namespace: str | None, **_: Any) -> None:
        wake(Key(owner.kind, namespace or "", labels[label]))

    group, _, version = api.group_version.partition("/")
    kopf.on.event(
        group,
        version,
        api.plural,
        registry=registry,
        id=f"{api.plural}-of-{owner.plural}-changed",
        labels={label: kopf.PRESENT},
    )(_make_async(wake_owner))


def _make_async(handler: Callable[..., None]) -> Callable[..., Any]:
    # kopf would run what is no coroutine function in yet another thread.
    async def handle(**given: Any) -> None:
        handler(**given)

    return handle
