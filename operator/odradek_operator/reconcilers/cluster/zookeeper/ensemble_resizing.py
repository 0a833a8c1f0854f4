"""Carries out what `ensemble` decides: servers join ZooKeeper's ensemble or leave it, while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from odradek_operator.desired.names import ZOOKEEPER, ZOOKEEPER_PORT
from odradek_operator.desired.zookeeper_files import server_line
from odradek_operator.gateways.kubernetes import VOLUME_CLAIMS, metadata
from odradek_operator.gateways.zookeeper_members import EnsembleError
from odradek_operator.reconcilers.cluster import steadiness
from odradek_operator.reconcilers.cluster.facts import BrokerPod
from odradek_operator.reconcilers.cluster.run import ReconcileRun
from odradek_operator.reconcilers.cluster.steadiness import observe
from odradek_operator.reconcilers.cluster.zookeeper.ensemble import Resize, claims_of_former_servers
from odradek_operator.reconcilers.cluster.zookeeper.ensemble import resize as plan_resize
from odradek_operator.reconcilers.cluster.zookeeper.ensemble_rolling import ENSEMBLE_SAFE_SIZE, ServerRoll
from odradek_operator.resources.cluster_status import EnsembleStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsembleFound:
    """The ensemble as it was read or changed, None where it was not asked; and the change that is wanted.

    `has_former_claims`: volume claims of servers that left are still there.
    """

    ensemble: EnsembleStatus | None = None
    resize: Resize = field(default_factory=Resize)
    has_former_claims: bool = False
    problem: str | None = None


async def resize_ensemble(run: ReconcileRun, pods: Sequence[BrokerPod], roll: ServerRoll) -> EnsembleFound:
    """Have as many servers vote as the Cluster asks for. Each run reads the voters before it changes them."""
    servers, before = run.context.spec.zookeeper.servers, run.before.ensemble
    if servers is None:
        return EnsembleFound()
    wanted = run.servers_wanted or (len(before.voters) if before is not None else None)
    if before is not None and before.voters == tuple(range(1, (wanted or 0) + 1)):
        return EnsembleFound(has_former_claims=await _remove_claims(run, servers.size, before))
    addresses = [f"{pod.address}:{ZOOKEEPER_PORT}" for pod in run.server_pods() if pod.ready and pod.address]
    if not addresses:
        return EnsembleFound()
    found = EnsembleFound()
    try:
        members = await run.admin.read_ensemble(addresses)
        found = replace(found, ensemble=EnsembleStatus(voters=members.voters, version=members.version))
        waits_for = steadiness.waits_for(await observe(run, pods), takes_server=True)
        if roll.left:
            waits_for = "its servers are being replaced"
        waits_for = _find_risk(run, wanted) or waits_for
        resize = plan_resize(members.voters, wanted, waits_for)
        found = replace(found, resize=resize)
        if not resize.under_way or resize.waiting:
            return found
        await run.report_event("EnsembleChanges", str(resize))
        members = await run.admin.resize_ensemble(
            addresses,
            joining=[server_line(run.context, number) for number in resize.joining],
            leaving=resize.leaving,
            login=run.zookeeper_login,
        )
        return replace(found, ensemble=EnsembleStatus(voters=members.voters, version=members.version))
    except EnsembleError as failure:
        # A leader that leaves takes the connection with it. The next run reads what became of the change.
        problem = f"the next look sees whether the ensemble has changed: {failure}"
        return replace(found, problem=problem)


def _find_risk(run: ReconcileRun, wanted: int | None) -> str | None:
    """The volume at risk that an ensemble of so few servers could not make up for; None without one."""
    if wanted is None or wanted >= ENSEMBLE_SAFE_SIZE:
        return None
    risks = [str(pod.at_risk) for pod in run.server_pods()[:wanted] if pod.at_risk is not None]
    return next(iter(risks), None)


async def _remove_claims(run: ReconcileRun, size: int, before: EnsembleStatus) -> bool:
    """Delete volume claims of servers that have left; whether there were any."""
    claims = run.claims(run.context.object_name(ZOOKEEPER))
    former = claims_of_former_servers(claims, size, before.voters)
    for claim in former:
        name = str(metadata(claim)["name"])
        if metadata(claim).get("deletionTimestamp") or ("Pod", name.partition("-")[2]) in run.objects:
            continue  # A pod that is stopping still writes.
        await run.delete(VOLUME_CLAIMS, name, uid=metadata(claim)["uid"])
    return bool(former)
