"""The choice of the next ZooKeeper server's pod to replace, if any: one at a time, and the leader last.

Kubernetes takes the next server as soon as a port is open. The ensemble may have no leader then, and with a leader that
goes early each later step may cost an election.

A server whose volume would go with its pod is replaced only where all of the others have its data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from odradek_operator.reconcilers.cluster.facts import ServerPod

# With fewer servers, the loss of one volume is the loss of the data, or of the majority that has it.
ENSEMBLE_SAFE_SIZE: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRoll:
    """`left` are the pods that must still be replaced, `replace` the one for now, `waiting` what holds it up."""

    left: tuple[str, ...] = ()
    replace: ServerPod | None = None
    why: str = ""
    waiting: str = ""


def reasons_to_roll(pods: tuple[ServerPod, ...]) -> dict[str, str]:
    """Why servers' pods must be replaced, by name; those that need not be are left out."""
    reasons = {pod.name: "it was asked to be restarted" for pod in pods if pod.roll}
    return reasons | {pod.name: "its pod template has changed" for pod in pods if not pod.current}


def next_server(
    pods: tuple[ServerPod, ...],
    reasons: Mapping[str, str],
    *,
    wanted: int,
    leader: str | None,
    waits_for: str | None,
) -> ServerRoll:
    """The decision. `waits_for` is what the steps of all rolls wait for, None for nothing."""
    left = tuple(pod.name for pod in pods if pod.name in reasons)
    if not left:
        return ServerRoll()
    going = [pod.name for pod in pods if pod.deleting]
    if going:
        return ServerRoll(left=left, waiting=f"{going[0]} is stopping")
    for pod in pods:
        # It does not serve, and nothing is lost by another try.
        if not pod.ready and not pod.current and pod.at_risk is None:
            return ServerRoll(left=left, replace=pod, why=reasons[pod.name])
    unready = [pod.name for pod in pods if not pod.ready]
    if unready or len(pods) < wanted:
        which = f"{unready[0]} is not ready yet" if unready else "a pod is being made"
        return ServerRoll(left=left, waiting=which)
    if waits_for is not None:
        return ServerRoll(left=left, waiting=waits_for)
    kept = [pod for pod in pods if pod.at_risk is not None and wanted < ENSEMBLE_SAFE_SIZE]
    free = [pod for pod in pods if pod.name in reasons and pod not in kept]
    if not free:
        return ServerRoll(
            left=left, waiting=f"{kept[0].at_risk}, and no other server makes up for {kept[0].name}"
        )
    following = [pod for pod in free if pod.name != leader]
    leading = [pod for pod in free if pod.name == leader]
    pod = (*reversed(following), *leading)[0]
    return ServerRoll(left=left, replace=pod, why=reasons[pod.name])
