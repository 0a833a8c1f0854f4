"""Services, policies and bindings of a Cluster; and the try of all that it is made of, before anything is made.

What is refused leaves nothing behind. The API server tries a manifest without keeping it (`dryRun=All`). Tried are
objects that are not there yet, and workloads that change. Those hold what users give without a schema of ours, as
sidecars and volumes.
"""

from __future__ import annotations

from odradek_operator.desired import brokers, controllers, policies, security, services, zookeeper
from odradek_operator.desired.binding import binding_config_map, spark_config_map
from odradek_operator.desired.names import BROKER, CONTROLLER, POOL_LABEL, ZOOKEEPER
from odradek_operator.desired.ways_in import ways_in
from odradek_operator.gateways.kubernetes import Json, metadata
from odradek_operator.gateways.secrets import Secrets, SecretTaken
from odradek_operator.reconcilers.cluster.console import console_objects
from odradek_operator.reconcilers.cluster.run import ReconcileRun
from odradek_operator.reconcilers.cluster.settings.addresses import ExternalAddresses, external_addresses
from odradek_operator.reconcilers.cluster.storage.volumes_at_risk import keeps_servers
from odradek_operator.reconcilers.cluster.zookeeper import ensemble
from odradek_operator.reconcilers.ownership import (
    Belonging,
    ForeignObject,
    ObjectsOfOthers,
    foreign_object,
)


async def check_manifests(run: ReconcileRun) -> None:
    """Try everything that the Cluster is made of. Raises ObjectsOfOthers, KubernetesError."""
    context, servers = run.context, run.context.spec.zookeeper.servers
    manifests = [
        *policies.service_accounts(context),
        *supporting_manifests(run),
        *policies.broker_budgets(context, is_held=True),
        brokers.broker_config_map(context),
        *(_with_claims_of(run, manifest) for manifest in brokers.broker_sets(context)),
        controllers.controller_config_map(context),
        controllers.controller_deployment(context),
    ]
    if servers is not None:
        member = ensemble.membership(run.before, servers.size)
        manifests += [
            zookeeper.zookeeper_config_map(context, servers, member),
            _with_claims_of(run, zookeeper.zookeeper_stateful_set(context, servers)),
        ]
    await run.applier.check_all(run.key, manifests, run.objects)
    if run.broker_set is None and security.needs_certificates(context.spec):
        await _check_secrets(run)


def _with_claims_of(run: ReconcileRun, manifest: Json) -> Json:
    """A StatefulSet with the claims of the one that is there: these cannot change, and `volumes` makes it again."""
    there = run.objects.get(("StatefulSet", str(metadata(manifest)["name"])))
    if there is None or run.applier.is_applied(run.key, manifest, there):
        return manifest
    claims = {"volumeClaimTemplates": there["spec"]["volumeClaimTemplates"]}
    return {**manifest, "spec": {**manifest["spec"], **claims}}


async def _check_secrets(run: ReconcileRun) -> None:
    """Raises ObjectsOfOthers where a Secret of the Cluster would be another's."""
    foreign: list[ForeignObject] = []
    for suffix in ("cluster-ca", "clients-ca", "broker-tls"):
        name = run.context.object_name(suffix)
        try:
            found = await Secrets(run.environment.kubernetes).read(run.key.namespace, name)
        except SecretTaken:
            foreign.append(ForeignObject(kind="Secret", name=name, belonging=Belonging.OTHER))
            continue
        if found is not None:
            other = foreign_object(found, name=run.key.name, uid=str(metadata(run.body)["uid"]))
            foreign += [other] if other is not None else []
    if foreign:
        raise ObjectsOfOthers(foreign)


async def apply_supporting_objects(run: ReconcileRun) -> ExternalAddresses:
    """Apply Services, budgets, policies and bindings. The answer is what brokers advertise because of them."""
    context, wanted = run.context, supporting_manifests(run)
    await run.apply_all(wanted)
    pools = run.before.pools
    found = external_addresses(
        context,
        run.objects,
        run.scale.brokers,
        known=run.before.listeners,
        known_brokers=sorted(broker for pool in pools for broker in pool.brokers) if pools else None,
    )
    # `evictions` applies the brokers' budgets, when it knows whether one may go.
    budgets = policies.broker_budgets(context, is_held=True)
    await _prune(run, [*policies.service_accounts(context), *wanted, *budgets])
    return found


def supporting_manifests(run: ReconcileRun) -> list[Json]:
    """Services, budgets, policies and bindings."""
    context = run.context
    servers = context.spec.zookeeper.servers
    keeps = servers is not None and keeps_servers(run.server_pods(), servers.size)
    most = run.scale.brokers
    return [
        *services.own_services(context),
        *services.external_services(context, most),
        *ways_in(
            context, most, route_version=run.ways_in.route_version, has_ingresses=run.ways_in.has_ingresses
        ),
        *policies.disruption_budgets(context, keeps_servers=keeps),
        *(policies.network_policies(context) if context.spec.network.enabled else ()),
        binding_config_map(context),
        spark_config_map(context),
    ]


def is_of_pool(body: Json) -> bool:
    """Whether a StatefulSet is a pool's: it goes when its brokers are empty, and not before."""
    return body.get("kind") == "StatefulSet" and POOL_LABEL in (metadata(body).get("labels") or {})


async def _prune(run: ReconcileRun, wanted: list[Json]) -> None:
    names = {BROKER, CONTROLLER, ZOOKEEPER}
    workloads = [
        body
        for (kind, name), body in run.objects.items()
        if kind in ("ConfigMap", "StatefulSet", "Deployment")
        and (name.removeprefix(f"{run.context.name}-") in names or is_of_pool(body))
    ]
    await run.applier.prune(
        run.key,
        [*wanted, *workloads, *console_objects(run), *run.records()],
        run.objects,
        owner=metadata(run.body)["uid"],
    )
