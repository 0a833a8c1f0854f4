"""The choice of the next broker's pod to replace, if any: one at a time, pods that do not serve first, only when safe.

Partitions that cannot become safe by waiting do not delay a roll. They are named, so that their owner can add a replica
or lower min.insync.replicas. A broker whose volume would go with its pod is another matter. It stays as long as it has
the last copy of anything, or may have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from odradek_operator.desired.names import REPLACE_ANNOTATION
from odradek_operator.gateways.cluster_admin import RestartAnswer
from odradek_operator.reconcilers.cluster.facts import BrokerPod
from odradek_operator.reconcilers.cluster.restart_words import (
    describe_last_copies,
    describe_wait,
    format_names,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Roll:
    """The plan of a roll. `left` are the brokers whose pods must still be replaced, `replace` the one for now."""

    left: tuple[int, ...] = ()
    replace: BrokerPod | None = None
    why: str = ""
    waiting: str = ""
    never_safe: tuple[str, ...] = ()


def reasons_to_roll(
    pods: tuple[BrokerPod, ...], settings: Mapping[int, tuple[str, ...]]
) -> dict[int, tuple[str, ...]]:
    """Why pods must be replaced, by broker; those that need not be are left out."""
    reasons: dict[int, tuple[str, ...]] = {}
    for pod in pods:
        found = [] if pod.current else ["its pod template has changed"]
        found += settings.get(pod.broker, ())
        if pod.replace:
            found.append("it was asked to be replaced with a new volume")
        elif pod.roll:
            found.append("it was asked to be restarted")
        if found:
            reasons[pod.broker] = tuple(found)
    return reasons


def needs_answers(
    pods: tuple[BrokerPod, ...], reasons: Mapping[int, tuple[str, ...]]
) -> tuple[BrokerPod, ...]:
    """The pods that must be asked whether they may go: only when all of them serve."""
    if not all(pod.ready for pod in pods):
        return ()
    return tuple(pod for pod in pods if pod.broker in reasons)


def next_pod(
    pods: tuple[BrokerPod, ...],
    reasons: Mapping[int, tuple[str, ...]],
    answers: Mapping[int, RestartAnswer],
    *,
    wanted: int,
) -> Roll:
    """The decision. `wanted` is how many pods there should be: one that is just being made is waited for."""
    left = tuple(pod.broker for pod in pods if pod.broker in reasons)
    if not left:
        return Roll()
    going = [pod for pod in pods if pod.deleting]
    if going:
        return Roll(left=left, waiting=f"the pod of broker {going[0].broker} is stopping")
    if len(pods) < wanted:
        return Roll(left=left, waiting="a pod is being made")
    unready = [pod for pod in pods if not pod.ready]
    for pod in unready:
        if pod.broker in reasons:
            if pod.at_risk is not None and not pod.replace:
                return Roll(left=left, waiting=describe_unknown_loss(pod))
            return Roll(left=left, replace=pod, why=format_names(reasons[pod.broker]))
    if unready:
        because = f": {unready[0].problem}" if unready[0].problem else ""
        return Roll(left=left, waiting=f"broker {unready[0].broker} is not ready yet{because}")
    waiting = ""
    for pod in pods:
        if pod.broker not in reasons:
            continue
        answer = answers.get(pod.broker, RestartAnswer(known=False))
        gets_new_volume = pod.replace or pod.at_risk is not None
        if gets_new_volume and answer.last_copies:
            waiting = waiting or describe_loss(pod, answer)
        elif answer.allowed and (gets_new_volume or not answer.refused_writes):
            # A new volume is no fuller than it should be.
            return Roll(
                left=left, replace=pod, why=format_names(reasons[pod.broker]), never_safe=answer.never_safe
            )
        else:
            waiting = waiting or describe_wait(pod.broker, answer)
    return Roll(left=left, waiting=waiting)


def hold_roll(roll: Roll, waits_for: str | None) -> Roll:
    """The same roll, or one that waits: a broker that serves stays while the cluster is not steady (`steadiness`).

    Otherwise no broker could take over its partitions, or it could not come back.
    """
    if waits_for is None or roll.replace is None or not roll.replace.ready:
        return roll
    return Roll(left=roll.left, waiting=waits_for)


def describe_loss(pod: BrokerPod, answer: RestartAnswer) -> str:
    """Why a broker that serves stays: its volume would go with its pod, and has the last copy of something."""
    has = f"broker {pod.broker} serves and has {describe_last_copies(answer)}"
    if pod.at_risk is not None:
        return (
            f"{has}, which would be lost with its pod: {pod.at_risk}. The condition Volumes says what to do"
        )
    return (
        f"{has}, which a new volume would lose. Give their topics more replicas, take {REPLACE_ANNOTATION} off its pod "
        "again, or delete its pod and claim yourself"
    )


def describe_unknown_loss(pod: BrokerPod) -> str:
    """Why a broker that does not serve stays: its volume would go with its pod, and may have the last copy."""
    return (
        f"broker {pod.broker} does not serve, so whether it has the last copy of something is not known. Its volume "
        f"would go with its pod: {pod.at_risk}. The condition Volumes says what to do"
    )
