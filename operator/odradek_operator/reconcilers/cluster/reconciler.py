"""Reconciles a Cluster: reads what there is, lets each concern do its step, and reports what the steps found.

Nothing is remembered between two runs but what was applied last, and that only saves writes.

A Cluster's workloads are its ZooKeeper servers, brokers and controllers, with the settings for their start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from odradek_operator.desired import brokers, controllers, policies, zookeeper
from odradek_operator.desired.names import (
    BROKER,
    CONTROLLER,
    HTTP_PORT,
    RESTART_ANNOTATION,
    ZOOKEEPER,
    Context,
)
from odradek_operator.foundation.keys import Key
from odradek_operator.foundation.settings import OperatorSettings
from odradek_operator.gateways.cluster_admin import ClusterAdmin
from odradek_operator.gateways.kubernetes import (
    CLUSTERS,
    NODES,
    PODS,
    STATEFUL_SETS,
    Forbidden,
    Json,
    NotFound,
    Refused,
    metadata,
    owner_reference,
)
from odradek_operator.reconcilers.applying import Applier
from odradek_operator.reconcilers.cluster import facts
from odradek_operator.reconcilers.cluster.adoption import RecordLooks, begin_adoption, settle_adoption
from odradek_operator.reconcilers.cluster.console import settle_console
from odradek_operator.reconcilers.cluster.rolling import evictions, pod_replacement
from odradek_operator.reconcilers.cluster.rolling.last_step import find_last_step
from odradek_operator.reconcilers.cluster.run import ReconcileRun, mark_contents_stale
from odradek_operator.reconcilers.cluster.scaling import broker_count, spreading
from odradek_operator.reconcilers.cluster.scaling.balancing import balance_brokers
from odradek_operator.reconcilers.cluster.scaling.partition_moves import (
    MoveFound,
    forget_removed_brokers,
    move_partitions,
)
from odradek_operator.reconcilers.cluster.settings import live_settings
from odradek_operator.reconcilers.cluster.settings.certificates import (
    NoAuthority,
    OperatorCertificates,
    settle_authorities,
    settle_broker_certificate,
)
from odradek_operator.reconcilers.cluster.settings.images import ImageRefused, choose_image, image_of
from odradek_operator.reconcilers.cluster.settings.missing_references import find_missing_references
from odradek_operator.reconcilers.cluster.settings.ways_in import find_refused_route, read_ways_in
from odradek_operator.reconcilers.cluster.status.conditions import conditions_when_paused
from odradek_operator.reconcilers.cluster.status.findings import Findings
from odradek_operator.reconcilers.cluster.status.report import (
    BLOCKED_SECONDS,
    BUSY_SECONDS,
    report,
    report_refusal,
    report_unready,
)
from odradek_operator.reconcilers.cluster.storage import volumes
from odradek_operator.reconcilers.cluster.storage.volumes_at_risk import (
    Warned,
    find_volumes_at_risk,
    warnings_of,
)
from odradek_operator.reconcilers.cluster.supporting_objects import apply_supporting_objects, check_manifests
from odradek_operator.reconcilers.cluster.zookeeper import ensemble
from odradek_operator.reconcilers.cluster.zookeeper.access import (
    ProtectedRegistries,
    settle_access,
    write_login,
)
from odradek_operator.reconcilers.cluster.zookeeper.ensemble_resizing import resize_ensemble
from odradek_operator.reconcilers.ownership import ObjectsOfOthers
from odradek_operator.reconcilers.reconciler import (
    Environment,
    conditions_of,
    is_deleted,
    is_paused,
    status_of,
)
from odradek_operator.resources.brokers import BROKERS_MAX
from odradek_operator.resources.cluster import ClusterSpec
from odradek_operator.resources.cluster_status import ClusterStatus
from odradek_operator.resources.structure import InvalidResource, parse

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"

# So long a first start waits for addresses of load balancers, that brokers need not start twice.
ADDRESS_SECONDS_MAX: Final = 60.0


class ClusterReconciler:
    """The kind Cluster."""

    def __init__(self, environment: Environment, *, admin: ClusterAdmin, settings: OperatorSettings) -> None:
        self._environment = environment
        self._admin = admin
        self._settings = settings
        self._applier = Applier(environment.kubernetes)
        self._certificates = OperatorCertificates()
        self._looks = RecordLooks()
        self._protected = ProtectedRegistries()

    async def reconcile(self, key: Key) -> float | None:
        environment = self._environment
        body = await environment.kubernetes.get(CLUSTERS, key.namespace, key.name)
        if body is None or is_deleted(body):
            # Kubernetes deletes what belongs to it, and nothing of it waits for the operator.
            self._applier.forget(key)
            self._certificates.forget(key)
            self._admin.forget(key)
            self._looks.forget(key)
            self._protected.forget(key)
            environment.conditions.forget(key)
            # They say so, and what was deleted with it is noted.
            await mark_contents_stale(environment, key)
            return None
        before = status_of(body, ClusterStatus)
        if is_paused(body):
            await environment.write_status(body, before, conditions_when_paused(conditions_of(body)))
            return None
        try:
            spec = parse(ClusterSpec, body["spec"])
        except InvalidResource as invalid:
            await report_unready(environment, body, before, "InvalidSpec", "; ".join(invalid.problems))
            return None
        if not image_of(spec, self._settings.broker_image):
            message = "no image is known: set spec.image, or start the operator with --broker-image"
            await report_unready(environment, body, before, "NoImage", message)
            return None
        try:
            run = await self._begin(key, body, spec, before)
        except ImageRefused as found:
            await report_unready(environment, body, before, found.refused.reason, found.refused.message)
            return None
        except broker_count.PoolsCollide as collision:
            await report_unready(environment, body, before, "PoolsCollide", str(collision))
            return BLOCKED_SECONDS
        except (Refused, Forbidden) as refusal:
            message = (
                "the operator cannot see what there is of this Cluster; give its role this right, or look at the "
                f"API server: {refusal}"
            )
            await report_unready(environment, body, before, "CannotLook", message, holds=None)
            raise
        try:
            return await self._carry_out(run)
        except ObjectsOfOthers as found:
            reason = "EarlierCluster" if found.are_earlier else "ObjectsOfOthers"
            await report_unready(environment, run.body, run.before, reason, str(found))
            return BUSY_SECONDS if found.are_earlier else BLOCKED_SECONDS
        except NoAuthority as missing:
            await report_unready(environment, run.body, run.before, "NoAuthority", str(missing))
            return BLOCKED_SECONDS
        except (Refused, Forbidden) as refusal:
            # Another try changes nothing: the Cluster must change, or the operator's rights.
            await report_refusal(run, refusal)
            raise

    async def _begin(self, key: Key, body: Json, spec: ClusterSpec, before: ClusterStatus) -> ReconcileRun:
        """The facts, and the number of brokers that are wanted now."""
        objects = await self._applier.read(key, str(metadata(body)["uid"]))
        there = facts.set_state(objects.get(("StatefulSet", f"{key.name}-{BROKER}")))
        brokers_there = broker_count.brokers_there(there, facts.broker_numbers(objects), before.movement)
        pools = broker_count.find_pools(spec.brokers, objects, key.name)
        broker_count.check_pools(pools, spec.brokers)
        of_pools = [
            broker
            for pool in pools
            for broker in broker_count.pool_brokers_there(pool, objects, key.name, before.movement)
        ]
        is_new = brokers_there is None and not of_pools
        scale = broker_count.scale(
            wanted=broker_count.list_wanted_brokers(spec.brokers),
            there=None if is_new else (*range(brokers_there or 0), *of_pools),
            before=before.movement,
        )
        stateful_set = objects.get(("StatefulSet", f"{key.name}-{BROKER}"))
        choice = choose_image(spec, self._settings.broker_image, before, stateful_set)
        begun = replace(
            before, movement=scale.movement or before.movement, newest_version=choice.newest_version
        )
        if begun != before:
            before = begun
            if there.there:
                # Remembered before anything is done, so that the next operator knows what was begun.
                body = await self._environment.write_status(body, before, conditions_of(body)) or body
        ways_in = await read_ways_in(
            self._environment.kubernetes, key, str(metadata(body)["uid"]), spec, begun, objects
        )
        at_risk = await find_volumes_at_risk(self._environment.kubernetes, key, objects)
        sized = ensemble.with_size(spec, key.name, before, objects)
        return ReconcileRun(
            key=key,
            body=body,
            before=before,
            context=self._context(key, body, sized, before, scale, pools, choice.image),
            refused_image=choice.refused,
            servers_wanted=spec.zookeeper.servers.replicas if spec.zookeeper.servers is not None else None,
            environment=self._environment,
            admin=self._admin,
            applier=self._applier,
            certificates=self._certificates,
            objects=objects,
            scale=scale,
            at_risk=at_risk,
            ways_in=ways_in,
        )

    async def _carry_out(self, run: ReconcileRun) -> float | None:
        run = run.with_context(spread=await spreading.decide_spread(run))
        run, access = await settle_access(run, self._protected)
        missing = await find_missing_references(run.environment.kubernetes, run.context, run.objects)
        run = replace(run, missing=missing)
        await check_manifests(run)
        run = await begin_adoption(run, self._looks)
        # Before any pod: an authority that cannot be used refuses the Cluster.
        authorities = await settle_authorities(run)
        await write_login(run)
        # ZooKeeper takes longest to start, and all others wait for it: it needs nothing but its account.
        await apply_accounts(run)
        volume_problem = await apply_zookeeper(run)
        zones = await read_zones(run)
        authority = None if authorities is None else authorities.cluster.trusted
        run = run.with_context(zones=zones.by_node, authority=authority)
        addresses = await apply_supporting_objects(run)
        run = run.with_context(addresses=addresses.by_listener)
        if authorities is not None:
            await settle_broker_certificate(run, authorities, addresses)
        found = Findings(
            zookeeper=run.zookeeper(),
            access=access,
            volume_problem=volume_problem,
            certificates_problem=None if authorities is None else authorities.problem,
            zones_problem=zones.problem,
            pending=addresses.pending,
            way_in_problem=run.ways_in.problem or find_refused_route(run.objects),
            missing=run.missing.describe(run.key.namespace),
            at_risk=await warn_of_volumes(run),
        )
        if run.broker_set is None and found.pending and self._is_young(run.body):
            await apply_controllers(run, is_held=found.controllers_are_held)
        else:
            run, found = await self._carry_out_on_brokers(run, found)
        return await report(run, replace(found, console=await settle_console(run)))

    async def _carry_out_on_brokers(
        self, run: ReconcileRun, found: Findings
    ) -> tuple[ReconcileRun, Findings]:
        volume_problem = await apply_brokers(run)
        pods = run.broker_pods()
        evictions_problem = await evictions.guard_evictions(run, pods)
        settings = await live_settings.settle_settings(run, pods)
        adoption = await settle_adoption(run, pods, settings, self._looks)
        disks = await live_settings.read_disks(run, pods, unknown=settings.unknown)
        server_roll = await pod_replacement.roll_servers(run, pods)
        found = replace(
            found,
            volume_problem=volume_problem or found.volume_problem,
            pods=pods,
            evictions_problem=evictions_problem,
            settings=settings,
            adoption=adoption,
            disks=disks,
            server_roll=server_roll,
            ensemble=await resize_ensemble(run, pods, server_roll),
        )
        roll = await pod_replacement.roll_brokers(
            run, pods, settings.plan.restart, servers_change=found.servers_change
        )
        found = replace(found, roll=roll, last_step=find_last_step(run, pods))
        await pod_replacement.roll_controllers(run, pods, is_held=bool(roll.left) or found.servers_change)
        await pod_replacement.force_lost_pods(run, pods)
        found = replace(found, move=await move_partitions(run, pods))
        found = replace(found, balance=await balance_brokers(run, found.balance_waits_for))
        if found.is_emptied and not run.missing.holds(BROKER):
            run, found = await self._remove_emptied_brokers(run, found)
        elif found.move == MoveFound() and not found.unreachable and run.brokers().settled:
            await forget_removed_brokers(run)
        await apply_controllers(run, is_held=found.controllers_are_held)
        return run, found

    async def _remove_emptied_brokers(
        self, run: ReconcileRun, found: Findings
    ) -> tuple[ReconcileRun, Findings]:
        """Remove the pods of brokers that are empty, and their volumes as the deletion policy says."""
        gone = broker_count.format_brokers(found.move.movement)
        wanted = run.context.spec.brokers
        left = broker_count.list_wanted_brokers(wanted)
        pools = tuple(
            replace(pool, pods=0 if pool.wanted is None else pool.wanted.replicas)
            for pool in run.context.pools
        )
        addresses = {
            name: {broker: one for broker, one in known.items() if broker in left}
            for name, known in run.context.addresses.items()
        }
        run = run.with_context(brokers=wanted.replicas, pools=pools, addresses=addresses)
        volume_problem = await apply_brokers(run) or found.volume_problem
        await mark_contents_stale(run.environment, run.key)
        await run.report_event("BrokersRemoved", f"brokers {gone} were empty and are gone")
        found = replace(found, move=MoveFound(), volume_problem=volume_problem, pods=run.broker_pods())
        return run, found

    def _context(
        self,
        key: Key,
        body: Json,
        spec: ClusterSpec,
        before: ClusterStatus,
        scale: broker_count.Scale,
        pools: Sequence[broker_count.PoolFound],
        image: str,
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
            brokers=sum(broker < BROKERS_MAX for broker in scale.brokers),
            pools=broker_count.pool_pods(pools, spec.brokers, scale.brokers),
            # An annotation that is taken away again asks for nothing.
            restart=str(annotations.get(RESTART_ANNOTATION) or before.restart or ""),
            addresses={},
            zones={},
        )

    def _is_young(self, body: Json) -> bool:
        made = datetime.fromisoformat(str(metadata(body)["creationTimestamp"]).replace("Z", "+00:00"))
        return (self._environment.now() - made).total_seconds() < ADDRESS_SECONDS_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Zones:
    """Objects that a Cluster's pods need: accounts, Services, budgets, network policies, and ConfigMaps for clients.

    Zones by node, or why they cannot be read.
    """

    by_node: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None


async def read_zones(run: ReconcileRun) -> Zones:
    """Zones by node, where the Cluster asks for them. Without the right to read nodes there are none."""
    label = run.context.spec.brokers.rack_label
    if label is None:
        return Zones()
    try:
        found = await run.environment.kubernetes.list(NODES, None)
    except Forbidden as failure:
        problem = (
            f"brokers have no racks: {failure}. Give the operator the right to read nodes (rbac.nodes of its "
            "chart), or take brokers.rackLabel away"
        )
        return Zones(problem=problem)
    return Zones(by_node=facts.zones(found, label))


async def apply_accounts(run: ReconcileRun) -> None:
    """The pods' ServiceAccounts. They come before all pods: a pod without its account is not made."""
    await run.apply_all(policies.service_accounts(run.context))


async def warn_of_volumes(run: ReconcileRun) -> tuple[Warned, ...]:
    """What is said of volumes that go with their pods. Brokers that have one are asked what only they have."""
    if not run.at_risk:
        return ()
    pods = run.broker_pods()
    asked = [pod for pod in pods if pod.at_risk is not None and pod.ready]
    answers = await evictions.restart_answers(run.admin, asked, run.key)
    return warnings_of(pods, run.server_pods(), answers)


async def apply_zookeeper(run: ReconcileRun) -> str | None:
    """Apply the ensemble, where the Cluster runs it; the answer is what is wrong with its volumes."""
    servers = run.context.spec.zookeeper.servers
    if servers is None or run.missing.holds(ZOOKEEPER):
        return None
    member = ensemble.membership(run.before, servers.size)
    await run.apply(zookeeper.zookeeper_config_map(run.context, servers, member))
    stateful_set = zookeeper.zookeeper_stateful_set(run.context, servers)
    return await volumes.apply_stateful_set(run, stateful_set, servers.storage.size)


async def apply_brokers(run: ReconcileRun) -> str | None:
    """Apply brokers' settings and StatefulSets; the answer is what is wrong with their volumes."""
    if run.missing.holds(BROKER):
        return None
    await run.apply(brokers.broker_config_map(run.context))
    size = run.context.spec.brokers.storage.size
    problem = await volumes.apply_stateful_set(run, brokers.broker_stateful_set(run.context), size)
    for pool in run.context.pools:
        if pool.wanted is not None:
            manifest = brokers.broker_stateful_set(run.context, pool)
            of_pool = await volumes.apply_stateful_set(run, manifest, pool.wanted.storage.size)
            problem = problem or of_pool
        elif not pool.pods:
            name = run.context.object_name(pool.suffix)
            await run.delete(STATEFUL_SETS, name)
            run.objects.pop(("StatefulSet", name), None)
    return problem


async def apply_controllers(run: ReconcileRun, *, is_held: bool) -> None:
    """Apply controllers, after all other rolls; the active one's pod goes last.

    With `is_held`, controllers that serve stay as they are: servers or brokers are still to be rolled.
    """
    there = run.controllers()
    if there.there and there.ready and (is_held or not run.brokers().settled):
        return
    if run.missing.holds(CONTROLLER):
        return
    await run.apply(controllers.controller_config_map(run.context))
    if there.there:
        await _protect_active_controller(run)
    await run.apply(controllers.controller_deployment(run.context))


async def _protect_active_controller(run: ReconcileRun) -> None:
    for name, pod in run.controller_pods().items():
        address = (pod.get("status") or {}).get("podIP")
        health = None if address is None else await run.admin.read_health(address, HTTP_PORT, run.key)
        active = health is not None and health.is_active_controller
        cost = "100" if active else None
        if (metadata(pod).get("annotations") or {}).get(DELETION_COST) == cost:
            continue
        try:
            await run.environment.kubernetes.set_annotations(
                PODS, run.key.namespace, name, {DELETION_COST: cost}
            )
        except NotFound:
            continue  # It is gone by now, and need not be protected.
