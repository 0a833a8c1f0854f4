"""Volumes that go with their pods: they are found, and the status says how to save what is on them.

A claim that was deleted stays while a pod uses it. The next deletion of the pod, by a roll or a drain, takes the
volume along. So pods with such a volume are held (`order`, `ensemble_rolling`, `evictions`) as long as no
other has in sync what is on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from odradek_operator.desired.names import BROKER, REPLACE_ANNOTATION, VOLUME, ZOOKEEPER
from odradek_operator.foundation.keys import Key
from odradek_operator.gateways.cluster_admin import RestartAnswer
from odradek_operator.gateways.kubernetes import VOLUME_CLAIMS, Kubernetes, metadata
from odradek_operator.reconcilers.cluster import facts
from odradek_operator.reconcilers.cluster.facts import BrokerPod, Objects, ServerPod, VolumeAtRisk
from odradek_operator.reconcilers.cluster.restart_words import describe_last_copies
from odradek_operator.reconcilers.cluster.storage import volume_claims
from odradek_operator.reconcilers.cluster.zookeeper.ensemble_rolling import ENSEMBLE_SAFE_SIZE

_PAGE: Final = 'docs/kubernetes.md, "A volume claim that is being deleted"'


async def find_volumes_at_risk(
    kubernetes: Kubernetes, key: Key, objects: Objects
) -> Mapping[str, VolumeAtRisk]:
    """The volumes of a Cluster's pods that do not outlive them, by pod. Raises KubernetesError."""
    found: dict[str, VolumeAtRisk] = {}
    for (kind, name), body in objects.items():
        if kind != "Pod" or facts.component_of(body) not in (BROKER, ZOOKEEPER):
            continue
        if metadata(body).get("deletionTimestamp"):
            continue
        claim_name = f"{VOLUME}-{name}"
        claim = objects.get((VOLUME_CLAIMS.kind, claim_name))
        if claim is None:
            # It may be there without the Cluster's label, put back by hand.
            named = await kubernetes.list(VOLUME_CLAIMS, key.namespace, fields={"metadata.name": claim_name})
            claim = next(iter(named), None)
        if claim is not None:
            risk = volume_claims.risk_of(claim)
        elif (body.get("spec") or {}).get("nodeName"):
            risk = VolumeAtRisk(claim=claim_name, volume=None, why="is gone")
        else:
            risk = None  # The pod has never run with it.
        if risk is not None:
            found[name] = risk
    return found


def keeps_servers(servers: Sequence[ServerPod], size: int) -> bool:
    """Whether no ZooKeeper server may be evicted: a volume is at risk, and `size` servers do not make up for it."""
    return size < ENSEMBLE_SAFE_SIZE and any(server.at_risk is not None for server in servers)


@dataclass(frozen=True, slots=True)
class Warned:
    """A volume at risk, and what the status says of it."""

    claim: str
    message: str


def warnings_of(
    brokers: Sequence[BrokerPod], servers: Sequence[ServerPod], answers: Mapping[int, RestartAnswer]
) -> tuple[Warned, ...]:
    """What is said of each volume at risk. `answers` are those of brokers about their restart."""
    found: list[Warned] = []
    for pod in brokers:
        if pod.at_risk is not None:
            said = _describe_broker(pod, pod.at_risk, answers.get(pod.broker, RestartAnswer(known=False)))
            found.append(Warned(pod.at_risk.claim, said))
    of_servers = (
        Warned(server.at_risk.claim, _describe_server(server, server.at_risk, len(servers)))
        for server in servers
        if server.at_risk is not None
    )
    return (*found, *of_servers)


def _describe_broker(pod: BrokerPod, risk: VolumeAtRisk, answer: RestartAnswer) -> str:
    begin = f"{risk}: the volume of broker {pod.broker} goes as soon as its pod does. "
    replace = f"annotate the pod {pod.name} with {REPLACE_ANNOTATION}=true, which gives it a new volume"
    if not answer.known:
        return (
            f"{begin}The broker does not answer whether it has the last copy of something, so the operator does not "
            f"restart it. {_keep_volume(risk)}"
        )
    if not answer.last_copies:
        return f"{begin}All that it has is in sync elsewhere: {replace}"
    return (
        f"{begin}It has {describe_last_copies(answer)}, so the operator neither restarts it nor lets a drain take it. "
        f"Give their topics more replicas, or move them away (odradek brokers drain {pod.broker}); then {replace}. "
        f"{_keep_volume(risk)}"
    )


def _describe_server(server: ServerPod, risk: VolumeAtRisk, servers: int) -> str:
    begin = f"{risk}: the volume of {server.name} goes as soon as its pod does. "
    if servers < ENSEMBLE_SAFE_SIZE:
        return (
            f"{begin}No other server makes up for it, so the operator does not restart it. Set "
            f"zookeeper.servers.replicas to {ENSEMBLE_SAFE_SIZE}, or make a backup (docs/zookeeper-backup.md). "
            f"{_keep_volume(risk)}"
        )
    return f"{begin}The other servers have its data, and give it to a new pod"


def _keep_volume(risk: VolumeAtRisk) -> str:
    if risk.volume is None:
        return f"Or copy the data out of the pod: {_PAGE}"
    patch = '{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}'
    return f"Keep the volume in any case: kubectl patch pv {risk.volume} --patch '{patch}', and see {_PAGE}"
