"""The end of a roll: the pod that it replaced last, until that serves.

Such a pod is current, so nothing is left to replace. The roll is over only when it serves: the condition `Rolling`
remembers that there was one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from odradek_operator.reconcilers.cluster.facts import BrokerPod
from odradek_operator.reconcilers.cluster.run import ReconcileRun
from odradek_operator.reconcilers.reconciler import conditions_of
from odradek_operator.resources.conditions import ConditionStatus

ROLLING: Final = "Rolling"


@dataclass(frozen=True, slots=True)
class LastStep:
    """A pod that a roll has replaced last, and that does not serve yet; `problem` is why it does not come up."""

    pod: str
    problem: str | None = None

    def __str__(self) -> str:
        return f"{self.pod} is starting" + (f": {self.problem}" if self.problem else "")


def find_last_step(run: ReconcileRun, pods: Sequence[BrokerPod]) -> LastStep | None:
    """The pod that a roll still waits for, where it has replaced all that it had to. `pods` are the brokers'."""
    if not any(one.type == ROLLING and one.status is ConditionStatus.TRUE for one in conditions_of(run.body)):
        return None
    servers, wanted = run.zookeeper(), run.brokers().wanted
    server_pods = run.server_pods() if servers is not None else ()
    for server in server_pods:
        if not server.ready:
            return LastStep(server.name)
    for pod in pods:
        if not pod.ready:
            return LastStep(pod.name, pod.problem)
    if servers is not None and len(server_pods) < servers.wanted:
        return LastStep("a ZooKeeper server")
    return LastStep("a broker") if len(pods) < wanted else None
