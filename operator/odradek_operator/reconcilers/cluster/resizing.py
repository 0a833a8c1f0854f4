"""Carries out what `ensemble` decides: servers join ZooKeeper's ensemble or leave it, while it runs."""

from __future__ import annotations

from odradek_operator.desired.names import ZOOKEEPER, ZOOKEEPER_PORT
from odradek_operator.desired.zookeeper_files import server_line
from odradek_operator.gateways.kubernetes import VOLUME_CLAIMS, metadata
from odradek_operator.gateways.zookeeper_members import EnsembleError
from odradek_operator.reconcilers.cluster import ensemble, steadiness
from odradek_operator.reconcilers.cluster.look import Look
from odradek_operator.reconcilers.cluster.replacing import observe
from odradek_operator.resources.cluster_status import Ensemble


async def resize_ensemble(look: Look) -> None:
    """Have as many servers vote as the Cluster asks for. Each look reads who votes before it changes that."""
    servers, before = look.context.spec.zookeeper.servers, look.before.ensemble
    if servers is None:
        return
    wanted = look.servers_wanted or (len(before.voters) if before is not None else None)
    is_known = before is not None and before.voters == tuple(range(1, (wanted or 0) + 1))
    if is_known:
        await _remove_claims(look, servers.size)
        return
    addresses = [f"{pod.address}:{ZOOKEEPER_PORT}" for pod in look.servers() if pod.ready and pod.address]
    if not addresses:
        return
    try:
        found = await look.admin.ensemble(addresses)
        look.ensemble = Ensemble(voters=found.voters, version=found.version)
        waits_for = steadiness.waits_for(await observe(look), takes_server=True)
        if look.server_roll.left:
            waits_for = "its servers are being replaced"
        elif look.roll.left:
            waits_for = "brokers are being replaced"
        look.resize = ensemble.resize(found.voters, wanted, waits_for)
        if not look.resize.under_way or look.resize.waiting:
            return
        await look.environment.report_event(look.body, "EnsembleChanges", str(look.resize))
        found = await look.admin.resize_ensemble(
            addresses,
            joining=[server_line(look.context, number) for number in look.resize.joining],
            leaving=look.resize.leaving,
        )
        look.ensemble = Ensemble(voters=found.voters, version=found.version)
    except EnsembleError as failure:
        # A leader that leaves takes the connection with it. The next look reads what became of the change.
        look.ensemble_problem = f"the next look sees whether the ensemble has changed: {failure}"


async def _remove_claims(look: Look, size: int) -> None:
    assert look.before.ensemble is not None
    claims = look.claims(look.context.called(ZOOKEEPER))
    for claim in ensemble.claims_of_former_servers(claims, size, look.before.ensemble.voters):
        name = str(metadata(claim)["name"])
        look.has_former_claims = True
        if metadata(claim).get("deletionTimestamp") or ("Pod", name.partition("-")[2]) in look.objects:
            continue  # A pod that is stopping still writes.
        await look.environment.kubernetes.delete(
            VOLUME_CLAIMS, look.key.namespace, name, uid=metadata(claim)["uid"]
        )
