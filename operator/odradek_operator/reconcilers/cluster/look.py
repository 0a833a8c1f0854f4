"""One look at a Cluster: what is known of it. It grows step by step, and each step does what it can with that.

The steps are functions by concern: `surroundings`, `workloads`, `volumes`, `live_settings`, `replacing`, `moving`. No
step relies on what an earlier look of the same process has done: one that was cut off is repeated by the next look.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from odradek_operator.desired.names import BROKER, ZOOKEEPER, Context
from odradek_operator.foundation import versions
from odradek_operator.foundation.keys import Key
from odradek_operator.gateways.cluster_admin import ClusterAdmin
from odradek_operator.gateways.kubernetes import CONSUMER_GROUPS, TOPICS, VOLUME_CLAIMS, Json
from odradek_operator.reconcilers.cluster import addresses, facts, rolling, scaling, storage
from odradek_operator.reconcilers.cluster.applying import Applier
from odradek_operator.reconcilers.cluster.ensemble import Resize
from odradek_operator.reconcilers.cluster.ensemble_rolling import ServerRoll
from odradek_operator.reconcilers.cluster.problems import Problems, read_problems
from odradek_operator.reconcilers.cluster.settings import SettingsPlan
from odradek_operator.reconcilers.reconciler import Environment, key_of
from odradek_operator.resources.cluster_status import ClusterStatus, Ensemble, Movement


@dataclass(slots=True, kw_only=True)
class Look:
    """What this look knows and has found so far. Each step adds its own."""

    key: Key
    body: Json
    before: ClusterStatus
    context: Context
    environment: Environment
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
    server_roll: ServerRoll = field(default_factory=ServerRoll)
    servers_wanted: int | None = None
    ensemble: Ensemble | None = None
    resize: Resize = field(default_factory=Resize)
    has_former_claims: bool = False
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
    evictions_problem: str | None = None
    refused_image: versions.Refused | None = None

    def stateful_set(self) -> Json | None:
        """The brokers' StatefulSet as it is."""
        return self.objects.get(("StatefulSet", self.context.called(BROKER)))

    def zookeeper(self) -> facts.SetState | None:
        if self.context.spec.zookeeper.servers is None:
            return None
        return facts.set_state(self.objects.get(("StatefulSet", self.context.called(ZOOKEEPER))))

    def servers(self) -> tuple[facts.ServerPod, ...]:
        """The ZooKeeper servers' pods."""
        stateful_set = self.objects.get(("StatefulSet", self.context.called(ZOOKEEPER)))
        return facts.server_pods(self.objects, stateful_set)

    @property
    def servers_roll(self) -> bool:
        """Whether ZooKeeper's servers are being replaced, join or leave, or may have to."""
        state = self.zookeeper()
        changes = bool(self.server_roll.left) or self.resize.under_way
        return state is not None and (changes or not state.settled)

    def claims(self, stateful_set: str) -> list[Json]:
        """The volume claims of a StatefulSet."""
        found = [body for (kind, _), body in self.objects.items() if kind == VOLUME_CLAIMS.kind]
        return storage.claims_of(found, stateful_set)

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

    async def read_problems(self) -> None:
        """Learn why pods are missing or not ready, where some are."""
        self.problems = await read_problems(
            self.environment.kubernetes, self.context, self.objects, self.environment.now()
        )
        of_pods = self.problems.of_pods
        self.pods = tuple(replace(pod, problem=of_pods.get(pod.name, pod.problem)) for pod in self.pods)

    async def wake_contents(self) -> None:
        """Have this Cluster's Topics and ConsumerGroups looked at: it serves now, or their partitions are elsewhere."""
        for api in (TOPICS, CONSUMER_GROUPS):
            for body in await self.environment.kubernetes.list(api, self.key.namespace):
                if (body.get("spec") or {}).get("cluster") == self.key.name:
                    self.environment.mark_stale(key_of(body))
