"""The brokers: a StatefulSet whose pods only the operator replaces, with a volume each."""

from __future__ import annotations

from dataclasses import replace

from odradek_operator.desired import scripts
from odradek_operator.desired.names import (
    BROKER,
    HTTP_PORT,
    INTERNAL_PORT,
    POOL_LABEL,
    PROCESSES_VARIABLE,
    REPLICATION_PORT,
    VOLUME,
    Context,
    Hardness,
    Json,
    PoolPods,
)
from odradek_operator.desired.pods import SCRATCH, digest, field_reference, pod_template
from odradek_operator.desired.security import is_secured, secret_mounts, secret_volume, secret_volumes
from odradek_operator.desired.servers import scrape_annotations, server
from odradek_operator.desired.settings import DATA_FOLDER, broker_settings, properties
from odradek_operator.desired.stateful_sets import stateful_set
from odradek_operator.desired.zookeeper_access import access_annotations, broker_login_volumes, login_mounts
from odradek_operator.resources.brokers import BrokerPool, Brokers
from odradek_operator.resources.spreading import Strictness

# A broker that stops hands its leaderships over first.
_GRACE_SECONDS = 120


def broker_config_map(context: Context) -> Json:
    """Brokers' settings, addresses and zones, and the script that reads them."""
    return context.manifest(
        "v1",
        "ConfigMap",
        context.object_name(BROKER),
        BROKER,
        data={
            "broker.properties": properties(broker_settings(context)),
            "addresses": scripts.addresses_script(context),
            "racks": scripts.racks_script(context),
            "start": scripts.start_broker(context),
        },
    )


def broker_sets(context: Context) -> list[Json]:
    """The StatefulSets of all brokers: those from number 0 on, and those of the pools that the Cluster names."""
    named = [pool for pool in context.pools if pool.wanted is not None]
    return [broker_stateful_set(context), *(broker_stateful_set(context, pool) for pool in named)]


def broker_stateful_set(context: Context, pool: PoolPods | None = None) -> Json:
    """A StatefulSet. Its pods are made at once, and only the operator replaces them (OnDelete).

    Settings are not part of the template: whether a broker has them is asked of the broker, and most are taken while it
    runs. The listeners' ports and the start script are.
    """
    wanted: Brokers | BrokerPool = context.spec.brokers
    if pool is not None and pool.wanted is not None:
        wanted = pool.wanted
        context = replace(context, spread={BROKER: _hardness_of_pool(context)})
    pod = wanted.pod
    labels = {} if pool is None else {POOL_LABEL: pool.name}
    external = {one.name: one.port for one in context.spec.listeners}
    if is_secured(context.spec):
        external["replication"] = REPLICATION_PORT
    broker = server(
        context,
        BROKER,
        resources=wanted.resources,
        pod=pod,
        ports={"internal": INTERNAL_PORT, "http": HTTP_PORT, **external},
        env={
            "POD_INDEX": field_reference("metadata.labels['apps.kubernetes.io/pod-index']"),
            "NODE_NAME": field_reference("spec.nodeName"),
            "NODE_IP": field_reference("status.hostIP"),
            **({} if wanted.processes == 1 else {PROCESSES_VARIABLE: str(wanted.processes)}),
        },
        mounts={VOLUME: DATA_FOLDER},
        start_seconds_max=300,
        # A broker whose disk is full still serves reads, and clients must reach it for what makes room.
        ready_path="/readyz?exclude=disk",
        fixed_mounts={**secret_mounts(context), **login_mounts(context)},
    )
    start = "\0".join([scripts.start_broker(context), *map(str, external.values())])
    template = pod_template(
        context,
        BROKER,
        pod=pod,
        containers=[broker],
        scratch={SCRATCH: "256Mi"},
        secrets=[
            *(secret_volume(name, secret) for name, secret in secret_volumes(context).items()),
            *broker_login_volumes(context),
        ],
        grace_seconds=_GRACE_SECONDS,
        annotations={
            "odradek.io/start": digest(start),
            **access_annotations(context),
            **scrape_annotations(context),
        },
        own_labels=labels,
    )
    return stateful_set(
        context,
        BROKER,
        service="brokers",
        replicas=context.brokers if pool is None else pool.pods,
        update="OnDelete",
        template=template,
        storage=wanted.storage,
        shrinks=True,
        suffix=None if pool is None else pool.suffix,
        labels=labels or None,
        first=0 if pool is None else pool.first_id,
    )


def _hardness_of_pool(context: Context) -> Hardness:
    """How strictly the pods of a pool are spread beside all others. Auto is loose: the nodes may be few for a pool."""
    spread = context.spec.spread
    return Hardness(nodes=spread.nodes is Strictness.REQUIRED, zones=spread.zones is Strictness.REQUIRED)
