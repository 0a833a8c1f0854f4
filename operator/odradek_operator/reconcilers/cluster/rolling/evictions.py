"""Whether a node's drain may take a broker: the brokers' disruption budget is held at zero unless any one may go.

Kubernetes checks the budget at each eviction, and does not ask the operator. So the budget is open only while every
broker answers that it may stop. A pod counts in the budget only once the operator has labelled it (`policies`). After
an eviction the budget therefore stays used up until the new pod has its partitions in sync. That holds however late the
operator is. docs/design/0006 has the reasons, and the alternatives.

Partitions that no waiting makes safe (one replica, or as many as min.insync.replicas) hold nothing back, as in a roll.
A volume that would go with its pod does, while it has the last copy of anything: also where its pod does not serve.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from odradek_operator.desired import policies
from odradek_operator.desired.names import BROKER, CAUGHT_UP_LABEL, CLUSTER_LABEL, HTTP_PORT
from odradek_operator.foundation.keys import Key
from odradek_operator.gateways.cluster_admin import ClusterAdmin, RestartAnswer
from odradek_operator.gateways.every_namespace import list_everywhere
from odradek_operator.gateways.kubernetes import (
    CLUSTERS,
    DISRUPTION_BUDGETS,
    FIELD_MANAGER,
    PODS,
    VOLUME_CLAIMS,
    Json,
    Kubernetes,
    NotFound,
    metadata,
)
from odradek_operator.reconcilers.cluster import facts
from odradek_operator.reconcilers.cluster.restart_words import describe_wait
from odradek_operator.reconcilers.cluster.rolling.order import describe_loss, describe_unknown_loss
from odradek_operator.reconcilers.cluster.run import ReconcileRun
from odradek_operator.reconcilers.cluster.storage import volume_claims

# Clusters whose brokers are asked at the same time; each has 128 brokers at most.
CLUSTERS_AT_ONCE_MAX: Final = 8
_OURS: Final = {"app.kubernetes.io/managed-by": FIELD_MANAGER}


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionVerdict:
    """Whether any one broker may be evicted. `problem` is why not, where Kubernetes does not show it itself.

    `keeps_unready`: not even a pod that does not serve may go.
    """

    may_go: bool
    problem: str | None = None
    keeps_unready: bool = False


def judge_evictions(
    pods: Sequence[facts.BrokerPod], answers: Mapping[int, RestartAnswer], *, wanted: int
) -> EvictionVerdict:
    """The summary of the brokers' pods and answers. `wanted` is how many pods there should be."""
    if loss := _find_loss(pods, answers):
        return EvictionVerdict(may_go=False, problem=loss, keeps_unready=True)
    if not pods or len(pods) < wanted or not all(pod.ready for pod in pods):
        return EvictionVerdict(may_go=False)
    for pod in pods:
        answer = answers.get(pod.broker, RestartAnswer(known=False))
        # A full disk holds back rolls, which can wait; a drain of another node may not wait for it.
        if not answer.allowed:
            return EvictionVerdict(may_go=False, problem=describe_wait(pod.broker, answer))
    return EvictionVerdict(may_go=True)


def _find_loss(pods: Sequence[facts.BrokerPod], answers: Mapping[int, RestartAnswer]) -> str | None:
    """What an eviction could lose for ever; None for nothing."""
    for pod in pods:
        if pod.at_risk is None:
            continue
        answer = answers.get(pod.broker, RestartAnswer(known=False))
        if not pod.ready:
            return describe_unknown_loss(pod)
        if not answer.known:
            return describe_wait(pod.broker, answer)
        if answer.last_copies:
            return describe_loss(pod, answer)
    return None


async def guard_evictions(run: ReconcileRun, pods: Sequence[facts.BrokerPod]) -> str | None:
    """Open the brokers' budget, or hold it at zero; the answer is what holds it.

    Pods that are in sync count in an open budget from now on.
    """
    found = await _ask(run.admin, pods, run.key, wanted=run.brokers().wanted)
    if found.may_go and run.missing.now.get(BROKER):
        found = EvictionVerdict(may_go=False, problem=run.missing.waiting(BROKER))
    if not found.may_go:
        await hold(run, keeps_unready=found.keeps_unready)
        return found.problem
    for manifest in policies.broker_budgets(run.context, is_held=False):
        await run.apply(manifest)
    for pod in pods:
        if pod.caught_up:
            continue
        try:
            await run.environment.kubernetes.set_labels(
                PODS, run.key.namespace, pod.name, {CAUGHT_UP_LABEL: "true"}
            )
        except NotFound:
            continue  # It is gone by now; the next one is not labelled.
    return found.problem


async def hold(run: ReconcileRun, *, keeps_unready: bool = False) -> None:
    """Hold the brokers' budget at zero."""
    for manifest in policies.broker_budgets(run.context, is_held=True, keeps_unready=keeps_unready):
        await run.apply(manifest)


async def restart_answers(
    admin: ClusterAdmin, pods: Iterable[facts.BrokerPod], cluster: Key
) -> dict[int, RestartAnswer]:
    """The brokers' answers, by id, about their own restart. Pods without an address are left out."""
    asked = [(pod.broker, pod.address) for pod in pods if pod.address is not None]
    answers = await asyncio.gather(*(admin.restart_answer(host, HTTP_PORT, cluster) for _, host in asked))
    return {broker: answer for (broker, _), answer in zip(asked, answers, strict=True)}


async def find_outdated_budgets(
    kubernetes: Kubernetes, admin: ClusterAdmin, namespaces: Sequence[str]
) -> set[Key]:
    """The Clusters whose brokers' budget is open and should be held, or the other way round, or with a volume at risk.

    No event follows when a replica falls behind or a claim is deleted, so this asks. No namespaces stand for all.
    Raises KubernetesError.
    """
    budgets: dict[Key, Json] = {}
    pods: dict[Key, list[Json]] = {}
    for body in await list_everywhere(kubernetes, DISRUPTION_BUDGETS, namespaces, labels=_OURS):
        key = _key_of(body)
        if key is not None and metadata(body)["name"] == f"{key.name}-{BROKER}":
            budgets[key] = body
    for body in await list_everywhere(kubernetes, PODS, namespaces, labels=_OURS):
        key = _key_of(body)
        if key is not None and facts.is_broker(body):
            pods.setdefault(key, []).append(body)
    at_risk: dict[Key, dict[str, facts.VolumeAtRisk]] = {}
    for body in await list_everywhere(kubernetes, VOLUME_CLAIMS, namespaces, labels=_OURS):
        key, risk = _key_of(body), volume_claims.risk_of(body)
        if key is not None and risk is not None:
            at_risk.setdefault(key, {})[volume_claims.pod_of(risk.claim)] = risk
    turns = asyncio.Semaphore(CLUSTERS_AT_ONCE_MAX)

    async def is_outdated(key: Key, budget: Json) -> bool:
        async with turns:
            found = facts.broker_pods(pods.get(key, ()), None, at_risk.get(key, {}))
            may_go = (await _ask(admin, found, key, wanted=len(found))).may_go
        return may_go != bool(budget["spec"].get("maxUnavailable"))

    keys = list(budgets)
    outdated = await asyncio.gather(*(is_outdated(key, budgets[key]) for key in keys))
    return {*at_risk, *(key for key, is_old in zip(keys, outdated, strict=True) if is_old)}


async def _ask(
    admin: ClusterAdmin, pods: Sequence[facts.BrokerPod], cluster: Key, *, wanted: int
) -> EvictionVerdict:
    """The verdict. Brokers that serve are asked if all do, or if a volume is at risk."""
    without_asking = judge_evictions(pods, {}, wanted=wanted)
    if without_asking.problem is None:
        return without_asking
    serving = [pod for pod in pods if pod.ready]
    return judge_evictions(pods, await restart_answers(admin, serving, cluster), wanted=wanted)


def _key_of(body: Json) -> Key | None:
    about = metadata(body)
    cluster = (about.get("labels") or {}).get(CLUSTER_LABEL)
    return Key(CLUSTERS.kind, str(about["namespace"]), str(cluster)) if cluster else None
