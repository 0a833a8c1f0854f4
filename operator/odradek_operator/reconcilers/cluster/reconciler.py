"""Makes a Cluster true: reads what is there, lets each concern decide, carries it out, and says what it found.

Nothing here remembers between two looks but what was applied last, and that only to save writes.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from typing import Final

from odradek_operator.desired.names import BROKER, CONTROLLER, RESTART_ANNOTATION, ZOOKEEPER, Context
from odradek_operator.foundation.keys import Key
from odradek_operator.foundation.settings import OperatorSettings
from odradek_operator.gateways.cluster_admin import ClusterAdmin
from odradek_operator.gateways.kubernetes import (
    CLUSTERS,
    Forbidden,
    Json,
    KubernetesError,
    Refused,
    metadata,
    owner_reference,
)
from odradek_operator.reconcilers.cluster import (
    ensemble,
    evictions,
    facts,
    live_settings,
    moving,
    replacing,
    resizing,
    scaling,
    spreading,
    surroundings,
    workloads,
)
from odradek_operator.reconcilers.cluster.addresses import PENDING, bootstrap_address
from odradek_operator.reconcilers.cluster.applying import Applier
from odradek_operator.reconcilers.cluster.asked import roll_asked
from odradek_operator.reconcilers.cluster.images import ImageRefused, choose_image, image_of, version_of
from odradek_operator.reconcilers.cluster.look import Look
from odradek_operator.reconcilers.cluster.ownership import ObjectsOfOthers
from odradek_operator.reconcilers.cluster.status import DATA_LOST, Findings, conditions, not_looked_at
from odradek_operator.reconcilers.cluster.storage import is_bound
from odradek_operator.reconcilers.reconciler import (
    Environment,
    is_deleted,
    is_paused,
    known_conditions,
    status_of,
)
from odradek_operator.resources.cluster import ClusterSpec
from odradek_operator.resources.cluster_status import ClusterStatus, ListenerStatus, Pods
from odradek_operator.resources.conditions import READY, is_ready, ready
from odradek_operator.resources.structure import InvalidResource, parse

BUSY_SECONDS: Final = 1.0
UNSETTLED_SECONDS: Final = 5.0
_EVENTS_MAX: Final = 3
# What cannot be done as long as the Cluster is as it is: events bring the next look sooner.
BLOCKED_SECONDS: Final = 30.0
# So long a first start waits for addresses of load balancers, that brokers need not start twice.
ADDRESS_SECONDS_MAX: Final = 60.0


class ClusterReconciler:
    """The kind Cluster."""

    def __init__(self, environment: Environment, *, admin: ClusterAdmin, settings: OperatorSettings) -> None:
        self._environment = environment
        self._admin = admin
        self._settings = settings
        self._applier = Applier(environment.kubernetes)

    async def reconcile(self, key: Key) -> float | None:
        body = await self._environment.kubernetes.get(CLUSTERS, key.namespace, key.name)
        if body is None or is_deleted(body):
            # What belongs to it goes with it; Kubernetes sees to that, and nothing of it waits for us.
            self._applier.forget(key)
            self._environment.conditions.forget(key)
            return None
        before = status_of(body, ClusterStatus)
        if is_paused(body):
            await self._environment.write_status(body, before, not_looked_at(known_conditions(body)))
            return None
        try:
            spec = parse(ClusterSpec, body["spec"])
        except InvalidResource as invalid:
            await self._report_unready(body, before, "InvalidSpec", "; ".join(invalid.problems))
            return None
        if not image_of(spec, self._settings.broker_image):
            message = "no image is known: set spec.image, or start the operator with --broker-image"
            await self._report_unready(body, before, "NoImage", message)
            return None
        try:
            look = await self._begin(key, body, spec, before)
        except ImageRefused as found:
            await self._report_unready(body, before, found.refused.reason, found.refused.message)
            return None
        except (Refused, Forbidden) as refusal:
            message = (
                "the operator cannot see what there is of this Cluster; give its role this right, or look at the "
                f"API server: {refusal}"
            )
            await self._report_unready(body, before, "CannotLook", message, holds=None)
            raise
        try:
            return await self._carry_out(look)
        except ObjectsOfOthers as found:
            reason = "EarlierCluster" if found.are_earlier else "ObjectsOfOthers"
            await self._report_unready(look.body, look.before, reason, str(found))
            return BUSY_SECONDS if found.are_earlier else BLOCKED_SECONDS
        except (Refused, Forbidden) as refusal:
            # Trying again alone changes nothing: who may change something must hear of it.
            await self._report_refusal(look, refusal)
            raise

    async def _begin(self, key: Key, body: Json, spec: ClusterSpec, before: ClusterStatus) -> Look:
        """What there is, and how many brokers there shall be now."""
        objects = await self._applier.read(key, str(metadata(body)["uid"]))
        there = facts.set_state(objects.get(("StatefulSet", f"{key.name}-{BROKER}")))
        brokers_there = scaling.brokers_there(there, facts.broker_numbers(objects), before.movement)
        scale = scaling.scale(wanted=spec.brokers.replicas, there=brokers_there, before=before.movement)
        stateful_set = objects.get(("StatefulSet", f"{key.name}-{BROKER}"))
        choice = choose_image(spec, self._settings.broker_image, before, stateful_set)
        begun = replace(
            before, movement=scale.movement or before.movement, newest_version=choice.newest_version
        )
        if begun != before:
            before = begun
            if there.there:
                # Remembered before anything is done, so that the next operator knows what was begun.
                body = await self._environment.write_status(body, before, known_conditions(body)) or body
        sized = ensemble.with_size(spec, key.name, before, objects)
        return Look(
            key=key,
            body=body,
            before=before,
            context=self._context(key, body, sized, before, scale.pods, choice.image),
            refused_image=choice.refused,
            servers_wanted=spec.zookeeper.servers.replicas if spec.zookeeper.servers is not None else None,
            environment=self._environment,
            admin=self._admin,
            applier=self._applier,
            objects=objects,
            scale=scale,
        )

    async def _carry_out(self, look: Look) -> float | None:
        # ZooKeeper takes longest to start, and all others wait for it: it needs nothing but its account.
        await surroundings.apply_accounts(look)
        await spreading.decide_spread(look)
        await workloads.apply_zookeeper(look)
        await surroundings.read_zones(look)
        await surroundings.apply_surroundings(look)
        is_first_start = look.stateful_set() is None
        if is_first_start and look.pending and self._is_young(look.body):
            await workloads.apply_controllers(look)
            return await self._report(look)
        await workloads.apply_brokers(look)
        await evictions.guard_evictions(look)
        await live_settings.settle_settings(look)
        await live_settings.read_disks(look)
        await replacing.roll_servers(look)
        await resizing.resize_ensemble(look)
        await replacing.roll_brokers(look)
        await roll_asked(look)
        await replacing.force_lost_pods(look)
        await moving.move_partitions(look)
        if look.is_emptied:
            await self._shrink(look)
        await workloads.apply_controllers(look)
        return await self._report(look)

    async def _shrink(self, look: Look) -> None:
        """The brokers that were to go are empty: their pods go, and volumes as the deletion policy says."""
        gone = scaling.named_brokers(look.movement)
        look.movement = None
        look.context = replace(look.context, brokers=look.context.spec.brokers.replicas)
        await workloads.apply_brokers(look)
        await look.wake_contents()
        await self._environment.report_event(
            look.body, "BrokersRemoved", f"brokers {gone} were empty and are gone"
        )

    def _context(
        self, key: Key, body: Json, spec: ClusterSpec, before: ClusterStatus, pods: int, image: str
    ) -> Context:
        annotations = metadata(body).get("annotations") or {}
        servers = spec.zookeeper.servers
        return Context(
            name=key.name,
            namespace=key.namespace,
            spec=spec,
            owner=owner_reference(body),
            image=image,
            zookeeper_image=(servers.image if servers else None) or self._settings.zookeeper_image,
            domain=self._settings.cluster_domain,
            operator_namespace=self._settings.home,
            brokers=pods,
            # An annotation that is taken away again asks for nothing.
            restart=str(annotations.get(RESTART_ANNOTATION) or before.restart or ""),
            addresses={},
            zones={},
        )

    def _is_young(self, body: Json) -> bool:
        made = datetime.fromisoformat(str(metadata(body)["creationTimestamp"]).replace("Z", "+00:00"))
        return (self._environment.now() - made).total_seconds() < ADDRESS_SECONDS_MAX

    async def _report_unready(
        self,
        body: Json,
        before: ClusterStatus,
        reason: str,
        message: str,
        *,
        holds: bool | None = False,
    ) -> None:
        others = [one for one in known_conditions(body) if one.type != READY]
        known = next((one for one in known_conditions(body) if one.type == READY), None)
        await self._environment.write_status(body, before, [ready(holds, reason, message), *others])
        if known is None or (known.reason, known.message) != (reason, message):
            await self._environment.report_event(body, reason, message, warning=True)

    async def _report_refusal(self, look: Look, refusal: KubernetesError) -> None:
        if isinstance(refusal, Forbidden):
            reason, what_to_do = (
                "Forbidden",
                "give the operator's role this right, or lift the quota that forbids it",
            )
        else:
            reason, what_to_do = "Refused", "correct what this Cluster asks for"
        message = f"Kubernetes refuses what belongs to this Cluster; {what_to_do}: {refusal}"
        await self._report_unready(look.body, look.before, reason, message)

    async def _tell_problems(self, look: Look) -> None:
        """An event for what keeps pods from coming up, once for each that is new."""
        known = next((one.message for one in known_conditions(look.body) if one.type == READY), "")
        found = [*look.problems.not_made.values(), *dict.fromkeys(look.problems.of_pods.values())]
        for problem in found[:_EVENTS_MAX]:
            # Times, counts and the numbers of pods change in what is the same problem.
            if _without_numbers(problem) not in _without_numbers(known):
                await self._environment.report_event(look.body, "PodsNotReady", problem, warning=True)

    async def _report(self, look: Look) -> float | None:
        def state(kind: str, suffix: str) -> facts.SetState:
            return facts.set_state(look.objects.get((kind, look.context.called(suffix))))

        await look.read_problems()
        brokers, controllers = state("StatefulSet", BROKER), state("Deployment", CONTROLLER)
        is_own = look.context.spec.zookeeper.servers is not None
        zookeeper = state("StatefulSet", ZOOKEEPER) if is_own else None
        status_before = look.before.ensemble
        look.data_problem = ensemble.data_problem(
            look.pods,
            look.before.cluster_id,
            look.cluster_id,
            look.servers(),
            () if status_before is None else status_before.voters,
        )
        stated = conditions(_findings(look, brokers, controllers, zookeeper))
        if look.data_problem and not any(one.reason == DATA_LOST for one in known_conditions(look.body)):
            await self._environment.report_event(look.body, DATA_LOST, look.data_problem, warning=True)
        if (refused := look.refused_image) and not any(
            one.message.startswith(refused.message) for one in known_conditions(look.body)
        ):
            await self._environment.report_event(look.body, refused.reason, refused.message, warning=True)
        status = _status(look, brokers, controllers, zookeeper)
        await self._environment.write_status(look.body, status, stated)
        await self._tell_problems(look)
        serves_again = is_ready(stated) and not is_ready(known_conditions(look.body))
        # What it says of its ConsumerGroups may be another now.
        is_changed = look.before.observed_generation not in (None, metadata(look.body).get("generation"))
        if serves_again or is_changed:
            await look.wake_contents()
        return _again_seconds(look, status, brokers, controllers)


def _without_numbers(text: str) -> str:
    return re.sub(r"\d+", "", text)


def _findings(
    look: Look, brokers: facts.SetState, controllers: facts.SetState, zookeeper: facts.SetState | None
) -> Findings:
    return Findings(
        wanted=look.context.spec.brokers.replicas,
        present=look.context.brokers,
        brokers=brokers,
        controllers=controllers,
        zookeeper=zookeeper,
        pods=look.pods,
        roll=look.roll,
        server_roll=look.server_roll,
        unknown=look.unknown,
        movement=look.movement,
        pending=look.pending,
        moving_problem=look.moving_problem,
        volume_problem=look.volume_problem,
        full_directories=look.full_directories,
        unreachable=look.unreachable,
        settings_problem=look.settings_problem,
        zones_problem=look.zones_problem,
        problems={
            component: problem
            for component in (BROKER, CONTROLLER, ZOOKEEPER)
            if (problem := look.problems.of(component, f"{look.context.called(component)}-")) is not None
        },
        ensemble_problem=look.ensemble_problem,
        resize=look.resize,
        data_problem=look.data_problem,
        evictions_problem=look.evictions_problem,
        refused_image=look.refused_image,
        image=look.context.image,
    )


def _status(
    look: Look, brokers: facts.SetState, controllers: facts.SetState, zookeeper: facts.SetState | None
) -> ClusterStatus:
    context, spec = look.context, look.context.spec
    # A broker that did not tell its settings may have old ones.
    current = sum(
        pod.ready and pod.broker not in (*look.unknown, *look.reasons) and not pod.deleting
        for pod in look.pods
    )
    pods = Pods(
        wanted=spec.brokers.replicas,
        ready=sum(pod.ready for pod in look.pods),
        current=current if brokers.settled else 0,
    )
    whole = _is_whole(pods, look, brokers)
    return replace(
        look.before,
        brokers=pods,
        controllers=Pods(
            wanted=spec.controllers.replicas, ready=controllers.ready, current=controllers.current
        ),
        zookeeper=None
        if zookeeper is None or spec.zookeeper.servers is None
        else Pods(wanted=spec.zookeeper.servers.size, ready=zookeeper.ready, current=zookeeper.current),
        ensemble=look.ensemble or look.before.ensemble,
        bootstrap=context.bootstrap,
        listeners=_listeners(look),
        image=context.image if whole else look.before.image,
        version=version_of(context.image) if whole else look.before.version,
        # Once known it stays: brokers that tell another are told of.
        cluster_id=look.before.cluster_id or look.cluster_id,
        movement=look.movement,
        restart=context.restart or None,
        live_settings=look.settings.live or look.before.live_settings,
        bound_volumes=tuple(
            component
            for component in (BROKER, ZOOKEEPER)
            if any(is_bound(claim) for claim in look.claims(context.called(component)))
        ),
    )


def _is_whole(pods: Pods, look: Look, brokers: facts.SetState) -> bool:
    return pods.ready == pods.current == pods.wanted == len(look.pods) and brokers.settled


def _again_seconds(
    look: Look, status: ClusterStatus, brokers: facts.SetState, controllers: facts.SetState
) -> float | None:
    """When to look again without being asked; None once all is as wanted."""
    assert status.brokers is not None
    if (
        look.roll.left
        or look.servers_roll
        or look.movement is not None
        or look.settings.alter
        or not brokers.settled
    ):
        is_blocked = look.moving_problem is not None or look.settings_problem is not None
        return BLOCKED_SECONDS if is_blocked and not look.roll.left else BUSY_SECONDS
    wanted = look.context.spec.controllers.replicas
    settled = _is_whole(status.brokers, look, brokers)
    settled = settled and controllers.current == controllers.ready == wanted
    settled = settled and not look.evictions_problem
    if look.zookeeper() is not None:
        # Servers are told of a configuration by the look after the one that has read it.
        is_told = status.ensemble is not None and status.ensemble == look.before.ensemble
        settled = settled and is_told and not look.has_former_claims
    return None if settled and not look.pending and look.unreachable is None else UNSETTLED_SECONDS


def _listeners(look: Look) -> tuple[ListenerStatus, ...]:
    nodes = sorted({pod.node_address for pod in look.pods if pod.node_address})
    by_broker = {pod.broker: pod.node_address or "" for pod in look.pods}
    return tuple(
        ListenerStatus(
            name=listener.name,
            type=str(listener.type),
            bootstrap=bootstrap_address(look.context, listener, look.objects, nodes),
            brokers=tuple(
                (address or PENDING).replace("${NODE_IP}", by_broker.get(broker, ""))
                for broker, address in enumerate(look.context.addresses.get(listener.name, ()))
            ),
        )
        for listener in look.context.spec.listeners
    )
