"""What a Cluster's pods refer to and is not there: until it is, what serves stays as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from odradek_operator.desired import brokers, controllers, zookeeper
from odradek_operator.desired.names import BROKER, CONTROLLER, ZOOKEEPER, Context
from odradek_operator.desired.zookeeper_access import LOGIN_SUFFIX
from odradek_operator.gateways.kubernetes import Json, Kubernetes, metadata
from odradek_operator.reconcilers.cluster.facts import Objects
from odradek_operator.reconcilers.references import find_missing

_SETS = ((ZOOKEEPER, "StatefulSet"), (BROKER, "StatefulSet"), (CONTROLLER, "Deployment"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingReferences:
    """What is not there, by component: of the pods that are wanted, and of those that would be made now.

    `there` are the components that have a StatefulSet or Deployment.
    """

    wanted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    now: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    there: frozenset[str] = frozenset()

    def holds(self, component: str) -> bool:
        """Whether the StatefulSet or Deployment of a component stays as it is."""
        return component in self.there and bool(self.wanted.get(component))

    def waiting(self, component: str) -> str | None:
        """Why no pod of a component is replaced: a new one would not start. None where nothing is missing."""
        missing = self.wanted.get(component) or self.now.get(component)
        return (
            f"a new pod would not start without the {_list(missing)}, which is not there" if missing else None
        )

    def describe(self, namespace: str) -> str | None:
        """All of it, and what to do; None where nothing is missing."""
        parts = []
        for component, _ in _SETS:
            missing = dict.fromkeys((*self.wanted.get(component, ()), *self.now.get(component, ())))
            if missing:
                parts.append(f"pods of the {_NAMES[component]} need the {_list(tuple(missing))}")
        if not parts:
            return None
        return (
            f"{'; '.join(parts)}, which is not there. Make it in the namespace {namespace}, or take it out of the "
            "Cluster. Pods that run stay as they are until then, and new ones do not start"
        )


_NAMES = {ZOOKEEPER: "ZooKeeper servers", BROKER: "brokers", CONTROLLER: "controllers"}


async def find_missing_references(
    kubernetes: Kubernetes, context: Context, objects: Objects
) -> MissingReferences:
    """Raises KubernetesError."""
    own = {context.object_name(name) for name in (BROKER, CONTROLLER, ZOOKEEPER, "broker-tls", LOGIN_SUFFIX)}
    servers = context.spec.zookeeper.servers
    manifests: dict[str, list[Json]] = {
        BROKER: brokers.broker_sets(context),
        CONTROLLER: [controllers.controller_deployment(context)],
    }
    if servers is not None:
        manifests[ZOOKEEPER] = [zookeeper.zookeeper_stateful_set(context, servers)]
    found = {component: objects.get((kind, context.object_name(component))) for component, kind in _SETS}
    wanted: dict[str, tuple[str, ...]] = {}
    now: dict[str, tuple[str, ...]] = {}
    for component, made in manifests.items():
        templates = [one["spec"]["template"] for one in made]
        wanted[component] = await find_missing(kubernetes, context.namespace, templates, own=own)
        there = [objects.get((str(one["kind"]), str(metadata(one)["name"]))) for one in made]
        templates_there = [one["spec"]["template"] for one in there if one is not None]
        if templates_there and templates_there != templates:
            now[component] = await find_missing(kubernetes, context.namespace, templates_there, own=own)
        elif templates_there:
            now[component] = wanted[component]
    return MissingReferences(
        wanted=wanted,
        now=now,
        there=frozenset(component for component, body in found.items() if body is not None),
    )


def _list(missing: tuple[str, ...]) -> str:
    return ", ".join(missing)
