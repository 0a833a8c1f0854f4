"""One look at a Cluster: what is known of it grows step by step, and each step does what it can with that.

A step that was cut off is begun anew by the next look; none of them relies on an earlier one having been carried out
by the same process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from odradek.foundation.errors import InvalidReplicationFactor, OdradekError
from odradek_operator.desired import brokers, controllers, policies, scripts, services, settings, zookeeper
from odradek_operator.desired.binding import binding_secret, spark_config_map
from odradek_operator.desired.names import BROKER, CONTROLLER, HTTP_PORT, VOLUME, ZOOKEEPER, Context
from odradek_operator.foundation.keys import Key
from odradek_operator.gateways.cluster_admin import ClusterAdmin, InForce
from odradek_operator.gateways.kubernetes import (
    CONSUMER_GROUPS,
    NODES,
    PODS,
    STATEFUL_SETS,
    TOPICS,
    VOLUME_CLAIMS,
    Conflict,
    Forbidden,
    Json,
    NotFound,
    Refused,
    metadata,
)
from odradek_operator.reconcilers.cluster import addresses, facts, rolling, scaling, storage
from odradek_operator.reconcilers.cluster.applying import Applier
from odradek_operator.reconcilers.cluster.problems import Problems, read_problems
from odradek_operator.reconcilers.cluster.settings import SettingsPlan, plan_settings
from odradek_operator.reconcilers.reconciler import Outside, key_of
from odradek_operator.resources.cluster import ClusterStatus, Movement
from odradek_operator.resources.schema import quantity_value

logger = logging.getLogger(__name__)

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"


@dataclass(slots=True, kw_only=True)
class Look:
    """What this look knows and has found so far."""

    key: Key
    body: Json
    before: ClusterStatus
    context: Context
    outside: Outside
    admin: ClusterAdmin
    applier: Applier
    objects: dict[tuple[str, str], Json]
    scale: scaling.Scale = field(default_factory=lambda: scaling.Scale(pods=0))
    movement: Movement | None = None
    pending: tuple[addresses.Pending, ...] = ()
    pods: tuple[facts.BrokerPod, ...] = ()
    settings: SettingsPlan = field(default_factory=SettingsPlan)
    unknown: tuple[int, ...] = ()
    reasons: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    roll: rolling.Roll = field(default_factory=rolling.Roll)
    cluster_id: str | None = None
    moving_problem: str | None = None
    volume_problem: str | None = None
    full_directories: Mapping[int, str] = field(default_factory=dict)
    unreachable: str | None = None
    settings_problem: str | None = None
    zones_problem: str | None = None
    unbound_claims: list[Json] = field(default_factory=list)
    problems: Problems = field(default_factory=Problems)
    ensemble_problem: str | None = None
    data_problem: str | None = None

    # --- Kubernetes ----------------------------------------------------------------------------------------------

    def stateful_set(self) -> Json | None:
        """The brokers' StatefulSet as it is."""
        return self.objects.get(("StatefulSet", self.context.called(BROKER)))

    async def read_zones(self) -> None:
        """Zones by node, where the Cluster asks for them. Without the right to read nodes there are none."""
        label = self.context.spec.brokers.rack_label
        if label is None:
            return
        try:
            found = await self.outside.kubernetes.list(NODES, None)
        except Forbidden as failure:
            self.zones_problem = (
                f"brokers have no racks: {failure}. Give the operator the right to read nodes (rbac.nodes of its "
                "chart), or take brokers.rackLabel away"
            )
            return
        self.context = replace(self.context, zones=facts.zones(found, label))

    async def apply_accounts(self) -> None:
        """Who the pods are: before all pods, since a pod without its account is not made."""
        await self.applier.apply_all(self.key, policies.service_accounts(self.context), self.objects)

    async def apply_surroundings(self) -> None:
        """Services, budgets, policies and bindings; then the addresses that brokers will tell follow."""
        most = max(self.scale.pods, self.context.spec.brokers.replicas)
        accounts = policies.service_accounts(self.context)
        wanted = [
            *services.own_services(self.context),
            *services.outside_services(self.context, most),
            *policies.disruption_budgets(self.context),
            *(policies.network_policies(self.context) if self.context.spec.network.enabled else ()),
            binding_secret(self.context),
            spark_config_map(self.context),
        ]
        await self.applier.apply_all(self.key, wanted, self.objects)
        found, self.pending = addresses.outside_addresses(
            self.context, self.objects, self.scale.pods, known=self.before.listeners
        )
        self.context = replace(self.context, addresses=found)
        await self._prune([*accounts, *wanted])

    async def _prune(self, wanted: list[Json]) -> None:
        names = {BROKER, CONTROLLER, ZOOKEEPER}
        workloads = [
            body
            for (kind, name), body in self.objects.items()
            if kind in ("ConfigMap", "StatefulSet", "Deployment")
            and name.removeprefix(f"{self.context.name}-") in names
        ]
        await self.applier.prune(
            self.key, [*wanted, *workloads], self.objects, owner=metadata(self.body)["uid"]
        )

    async def apply_zookeeper(self) -> None:
        """The ensemble, where it is run here."""
        servers = self.context.spec.zookeeper.servers
        if servers is None:
            return
        await self.applier.apply(
            self.key, zookeeper.zookeeper_config_map(self.context, servers), self.objects
        )
        await self._apply_stateful_set(
            zookeeper.zookeeper_stateful_set(self.context, servers), servers.storage.size
        )

    async def apply_brokers(self) -> None:
        """Brokers' settings and StatefulSet."""
        await self.applier.apply(self.key, brokers.broker_config_map(self.context), self.objects)
        size = self.context.spec.brokers.storage.size
        await self._apply_stateful_set(brokers.broker_stateful_set(self.context), size)
        pods = [body for (kind, _), body in self.objects.items() if kind == "Pod" and facts.is_broker(body)]
        self.pods = facts.broker_pods(pods, self.stateful_set())

    async def _apply_stateful_set(self, manifest: Json, size: str) -> None:
        name = metadata(manifest)["name"]
        there = self.objects.get(("StatefulSet", name))
        if there is not None and metadata(there).get("deletionTimestamp"):
            return  # It is on its way out, without its pods; the next look makes it anew.
        await self._grow_volumes(name, size)
        manifest = await self._settle_class(there, manifest)
        if storage.must_be_made_anew(there, manifest):
            logger.info(
                "%s: %s is made anew, its pods stay: its volumes have another size, class or labels now",
                self.key,
                name,
            )
            uid = metadata(there or {}).get("uid")
            await self.outside.kubernetes.delete(
                STATEFUL_SETS, self.key.namespace, name, uid=uid, orphan=True
            )
            del self.objects["StatefulSet", name]
            # After their set, which would make them again as they were.
            await self.remove_unbound_claims()
            return
        await self.applier.apply(self.key, manifest, self.objects)
        await self.remove_unbound_claims()

    def claims(self, stateful_set: str) -> list[Json]:
        """The volume claims of a StatefulSet."""
        found = [body for (kind, _), body in self.objects.items() if kind == VOLUME_CLAIMS.kind]
        return storage.claims_of(found, stateful_set)

    async def _settle_class(self, there: Json | None, manifest: Json) -> Json:
        """The manifest with the storage class that volumes were made with; claims without one are made anew."""
        if there is None:
            return manifest
        name = str(metadata(manifest)["name"])
        old = storage.storage_class(storage.claim_template(there))
        new = storage.storage_class(storage.claim_template(manifest))
        claims = self.claims(name)
        if old != new and any(storage.is_bound(claim) for claim in claims):
            self.volume_problem = (
                f"the storage class of {name} stays {old or 'the default'}: its volumes were made with it. Set it "
                "back, or move to a new Cluster"
            )
            return storage.with_class(manifest, old)
        for claim in claims:
            # Also those of an earlier look that was cut off.
            is_wrong = old != new or (new is not None and storage.storage_class(claim) != new)
            if is_wrong and not storage.is_bound(claim) and not metadata(claim).get("deletionTimestamp"):
                self.unbound_claims.append(claim)
        return manifest

    async def remove_unbound_claims(self) -> None:
        """Delete claims of a wrong storage class that have no volume, and the pods that wait for them."""
        unbound, self.unbound_claims = self.unbound_claims, []
        for claim in unbound:
            about = metadata(claim)
            logger.info("%s: %s has no volume and is made anew with another class", self.key, about["name"])
            await self.outside.kubernetes.delete(
                VOLUME_CLAIMS, self.key.namespace, about["name"], uid=about["uid"]
            )
            pod = self.objects.get(("Pod", str(about["name"]).removeprefix(f"{VOLUME}-")))
            if pod is not None and not facts.pod_is_ready(pod):
                uid = metadata(pod)["uid"]
                await self.outside.kubernetes.delete(PODS, self.key.namespace, metadata(pod)["name"], uid=uid)

    async def _grow_volumes(self, stateful_set: str, size: str) -> None:
        claims = [body for (kind, _), body in self.objects.items() if kind == "PersistentVolumeClaim"]
        for growth in storage.claims_to_grow(claims, stateful_set=stateful_set, size=size):
            manifest = {
                "apiVersion": VOLUME_CLAIMS.group_version,
                "kind": VOLUME_CLAIMS.kind,
                # With its uid: a claim that is gone is not made here.
                "metadata": {"name": growth.claim, "namespace": self.key.namespace, "uid": growth.uid},
                "spec": {"resources": {"requests": {"storage": growth.size}}},
            }
            try:
                await self.outside.kubernetes.apply(manifest)
                await self.outside.tell(
                    self.body, "VolumeGrows", f"{growth.claim} asks for {growth.size} now"
                )
            except Conflict:
                logger.info("%s: %s went before it could grow", self.key, growth.claim)
            except (Refused, Forbidden) as refusal:
                why = f"{refusal}. Its storage class must allow expansion"
                self.volume_problem = f"{growth.claim} cannot grow to {growth.size}: {why}"

    async def apply_controllers(self) -> None:
        """Controllers: after the brokers' roll, unless there are none; the active one's pod goes last."""
        there = facts.set_state(self.objects.get(("Deployment", self.context.called(CONTROLLER))))
        brokers_settled = facts.set_state(self.stateful_set()).settled
        # Of a broker whose settings are not known nobody can say that it is done.
        if there.there and there.ready and (self.roll.left or self.unknown or not brokers_settled):
            return
        await self.applier.apply(self.key, controllers.controller_config_map(self.context), self.objects)
        if there.there:
            await self._protect_active_controller()
        await self.applier.apply(self.key, controllers.controller_deployment(self.context), self.objects)

    async def _protect_active_controller(self) -> None:
        for (kind, name), pod in self.objects.items():
            labels = metadata(pod).get("labels") or {}
            if kind != "Pod" or labels.get("app.kubernetes.io/component") != CONTROLLER:
                continue
            address = (pod.get("status") or {}).get("podIP")
            active = address is not None and await self.admin.is_active_controller(address, HTTP_PORT)
            cost = "100" if active else None
            if (metadata(pod).get("annotations") or {}).get(DELETION_COST) == cost:
                continue
            try:
                await self.outside.kubernetes.set_annotations(
                    PODS, self.key.namespace, name, {DELETION_COST: cost}
                )
            except NotFound:
                continue  # It went meanwhile, and need not be protected.

    # --- brokers -------------------------------------------------------------------------------------------------

    async def settle_settings(self) -> None:
        """Alter what brokers take while they run, and learn who must be restarted for the rest."""
        serving = [pod for pod in self.pods if pod.ready]
        # Together: one that is silent holds up neither the others nor what is known of them.
        asked = await asyncio.gather(*(self._settings_of(pod.broker) for pod in serving))
        in_force = {pod.broker: told for pod, told in zip(serving, asked, strict=True) if told is not None}
        self.unknown = tuple(pod.broker for pod in serving if pod.broker not in in_force)
        try:
            if in_force:
                self.cluster_id = await self.admin.cluster_id(self.context.bootstrap)
        except OdradekError as failure:
            self.unreachable = f"brokers do not answer the operator: {failure}"
        wanted = {pod.broker: self._file_of(pod) for pod in serving}
        self.settings = plan_settings(wanted, in_force, live=self.before.live_settings)
        for broker, keys in self.settings.covered.items():
            self.settings_problem = (
                f"broker {broker} has values of its own for {rolling.named(keys)}, which cover what the Cluster says; "
                f"take them back: odradek configs unset broker {broker} {' '.join(keys)}"
            )
        if not self.settings.alter:
            return
        try:
            await self.admin.set_defaults(self.context.bootstrap, self.settings.alter)
            altered = ", ".join(
                f"{key} back to its default" if value is None else f"{key}={value}"
                for key, value in self.settings.alter.items()
            )
            await self.outside.tell(self.body, "SettingsAltered", f"without a restart: {altered}")
        except OdradekError as failure:
            self.settings_problem = f"{', '.join(self.settings.alter)} could not be altered: {failure}"

    async def read_disks(self) -> None:
        """Find the brokers whose disks are full. One that does not answer is left out: `unknown` names it."""
        serving = [pod.broker for pod in self.pods if pod.ready and pod.broker not in self.unknown]
        if not serving:
            return
        try:
            self.full_directories = await self.admin.full_directories(self.context.bootstrap, serving)
        except OdradekError as failure:
            self.unreachable = f"brokers do not tell the operator of their disks: {failure}"

    async def _settings_of(self, broker: int) -> Mapping[str, InForce] | None:
        try:
            return await self.admin.settings(self.context.bootstrap, broker)
        except OdradekError as failure:
            self.unreachable = f"broker {broker} does not tell the operator its settings: {failure}"
            return None

    def _file_of(self, pod: facts.BrokerPod) -> Mapping[str, str]:
        file = settings.broker_settings(self.context)
        told = scripts.advertised(self.context, pod.broker)
        node_address = pod.node_address or ""
        host = f"[{node_address}]" if ":" in node_address else node_address
        return file | {"advertised.listeners": told.replace(addresses.NODE_IP, host)}

    async def roll_brokers(self) -> None:
        """Replace one pod, if one may be."""
        state = facts.set_state(self.stateful_set())
        if not state.there or not state.settled or state.deleting:
            return
        self.reasons = rolling.reasons_to_roll(self.pods, self.settings.restart)
        asked = [
            (pod.broker, pod.address)
            for pod in rolling.needs_answers(self.pods, self.reasons)
            if pod.address is not None
        ]
        told = await asyncio.gather(*(self.admin.restart_answer(host, HTTP_PORT) for _, host in asked))
        answers = {broker: answer for (broker, _), answer in zip(asked, told, strict=True)}
        roll = rolling.next_pod(self.pods, self.reasons, answers, wanted=state.wanted)
        self.roll = rolling.held_by_zookeeper(roll, self._zookeeper())
        if self.roll.replace is not None:
            await self._replace(self.roll.replace)

    def _zookeeper(self) -> facts.SetState | None:
        if self.context.spec.zookeeper.servers is None:
            return None
        return facts.set_state(self.objects.get(("StatefulSet", self.context.called(ZOOKEEPER))))

    async def _replace(self, pod: facts.BrokerPod) -> None:
        kubernetes = self.outside.kubernetes
        if self.roll.never_safe:
            await self.outside.tell(
                self.body,
                "PartitionsAway",
                f"while broker {pod.broker} restarts, these take no records with acks=all: "
                f"{rolling.named(self.roll.never_safe)}",
                warning=True,
            )
        if pod.replace:
            # The volume first: its claim stays until the pod is gone, and the new pod gets a new one.
            claim = f"{VOLUME}-{pod.name}"
            await kubernetes.delete(VOLUME_CLAIMS, self.key.namespace, claim)
        await self.outside.tell(self.body, "BrokerRestarts", f"broker {pod.broker}: {self.roll.why}")
        await kubernetes.delete(PODS, self.key.namespace, pod.name, uid=pod.uid)

    async def force_lost_pods(self) -> None:
        """A pod that was asked to be replaced and whose node is lost stops never by itself."""
        for pod in self.pods:
            if not (pod.replace and pod.deleting) or pod.node is None:
                continue
            try:
                node = await self.outside.kubernetes.get(NODES, None, pod.node)
            except Forbidden:
                continue
            if facts.node_is_lost(node):
                # The claim first: a volume of the lost node would hold the new pod to it.
                claim = f"{VOLUME}-{pod.name}"
                await self.outside.kubernetes.delete(VOLUME_CLAIMS, self.key.namespace, claim)
                await self.outside.kubernetes.delete(
                    PODS, self.key.namespace, pod.name, uid=pod.uid, force=True
                )

    async def move_partitions(self) -> None:
        """Fill brokers that were added, empty those that are to go."""
        self.movement = self.scale.movement
        if self.movement is None:
            return
        rate = self.context.spec.brokers.move_rate
        bytes_per_second = None if rate is None else max(1, int(quantity_value(rate)))
        try:
            await self._move(bytes_per_second)
        except InvalidReplicationFactor as refusal:
            self.moving_problem = f"brokers cannot be emptied: {refusal}"
        except OdradekError as failure:
            self.unreachable = f"partitions cannot be moved now: {failure}"

    async def _move(self, bytes_per_second: int | None) -> None:
        bootstrap, movement = self.context.bootstrap, self.movement
        assert movement is not None
        if self.scale.stop_drain:
            await self.admin.stop_drain(bootstrap, self.scale.stop_drain)
        if movement.reason == scaling.Reason.DOWN:
            await self.admin.check_drain(bootstrap, movement.brokers)
            left = await self.admin.drain(bootstrap, movement.brokers, bytes_per_second=bytes_per_second)
            self.movement = scaling.progressed(movement, begun=0, left=left)
            return
        serving = {pod.broker for pod in self.pods if pod.ready}
        if not serving.issuperset(movement.brokers):
            return
        begun = await self.admin.spread(bootstrap, movement.brokers, bytes_per_second=bytes_per_second)
        left = await self.admin.arriving(bootstrap, movement.brokers)
        self.movement = scaling.progressed(movement, begun=begun, left=left)
        if not begun and not left:
            self.movement = None
            if bytes_per_second is not None:
                await self.admin.end_throttle(bootstrap)
            which = rolling.named(tuple(str(broker) for broker in movement.brokers))
            await self.wake_contents()
            await self.outside.tell(
                self.body, "BrokersFilled", f"brokers {which} have their share of all partitions"
            )

    async def read_problems(self) -> None:
        """Learn why pods are missing or not ready, where some are."""
        self.problems = await read_problems(
            self.outside.kubernetes, self.context, self.objects, self.outside.now()
        )
        of_pods = self.problems.of_pods
        self.pods = tuple(replace(pod, problem=of_pods.get(pod.name, pod.problem)) for pod in self.pods)

    async def wake_contents(self) -> None:
        """Have this Cluster's Topics and ConsumerGroups looked at: it serves now, or their partitions are elsewhere."""
        for api in (TOPICS, CONSUMER_GROUPS):
            for body in await self.outside.kubernetes.list(api, self.key.namespace):
                if (body.get("spec") or {}).get("cluster") == self.key.name:
                    self.outside.look_anew(key_of(body))

    @property
    def is_emptied(self) -> bool:
        """Whether the brokers that are to go have nothing left: found by this look, not remembered."""
        return (
            self.movement is not None
            and self.movement.reason == scaling.Reason.DOWN
            and self.movement.left == 0
            and self.unreachable is None
            and self.moving_problem is None
        )
