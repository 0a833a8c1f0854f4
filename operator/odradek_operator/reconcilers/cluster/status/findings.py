"""Findings of a run's steps. Conditions, status and the next run's time are made from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from odradek_operator.reconcilers.cluster.adoption import AdoptionFound
from odradek_operator.reconcilers.cluster.console import ConsoleFound
from odradek_operator.reconcilers.cluster.facts import BrokerPod, SetState
from odradek_operator.reconcilers.cluster.rolling.last_step import LastStep
from odradek_operator.reconcilers.cluster.rolling.order import Roll
from odradek_operator.reconcilers.cluster.scaling.balancing import BalanceFound
from odradek_operator.reconcilers.cluster.scaling.broker_count import Reason
from odradek_operator.reconcilers.cluster.scaling.partition_moves import MoveFound
from odradek_operator.reconcilers.cluster.settings.addresses import PendingAddresses
from odradek_operator.reconcilers.cluster.settings.live_settings import DisksFound, SettingsFound
from odradek_operator.reconcilers.cluster.storage.volumes_at_risk import Warned
from odradek_operator.reconcilers.cluster.zookeeper.access import AccessFound
from odradek_operator.reconcilers.cluster.zookeeper.ensemble_resizing import EnsembleFound
from odradek_operator.reconcilers.cluster.zookeeper.ensemble_rolling import ServerRoll


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The findings of a run, by step; a step that did not run has its default. Problems are texts, None for none.

    `zookeeper` is None where the Cluster runs no ZooKeeper, `access` is how far its protection is.
    `pending` are addresses of listeners that are missing, `way_in_problem` is what is wrong with Ingresses and
    TLSRoutes.
    `at_risk` are volumes that go with their pods; `missing` is what pods refer to and is not there.
    `pending_set` is a StatefulSet whose newest form Kubernetes has not taken up yet: which pods are current is not
    known. `last_step` is the pod that a roll waits for after it has replaced the last one.
    `console` is None where none is wanted.
    `pod_problems` are what keeps pods from being made or from becoming ready, by component.
    """

    zookeeper: SetState | None = None
    access: AccessFound = field(default_factory=AccessFound)
    pending: tuple[PendingAddresses, ...] = ()
    way_in_problem: str | None = None
    missing: str | None = None
    certificates_problem: str | None = None
    zones_problem: str | None = None
    volume_problem: str | None = None
    at_risk: tuple[Warned, ...] = ()
    pods: tuple[BrokerPod, ...] = ()
    evictions_problem: str | None = None
    settings: SettingsFound = field(default_factory=SettingsFound)
    adoption: AdoptionFound = field(default_factory=AdoptionFound)
    disks: DisksFound = field(default_factory=DisksFound)
    server_roll: ServerRoll = field(default_factory=ServerRoll)
    ensemble: EnsembleFound = field(default_factory=EnsembleFound)
    roll: Roll = field(default_factory=Roll)
    move: MoveFound = field(default_factory=MoveFound)
    balance: BalanceFound = field(default_factory=BalanceFound)
    pod_problems: Mapping[str, str] = field(default_factory=dict)
    data_problem: str | None = None
    path_problem: str | None = None
    pending_set: str | None = None
    last_step: LastStep | None = None
    console: ConsoleFound | None = None

    @property
    def unreachable(self) -> str | None:
        """Why brokers could not be asked: what the latest step met that asked them."""
        problems = (self.balance, self.move, self.disks, self.adoption, self.settings)
        return next((one.unreachable for one in problems if one.unreachable), None)

    @property
    def servers_change(self) -> bool:
        """Whether ZooKeeper's servers are being replaced, join or leave, or may have to."""
        changes = bool(self.server_roll.left) or self.ensemble.resize.under_way
        return self.zookeeper is not None and (changes or not self.zookeeper.settled)

    @property
    def balance_waits_for(self) -> str | None:
        """Why no batch of a rebalance may begin: brokers come or go, or pods are being replaced."""
        if self.move.movement is not None or self.move.problem:
            return "Further batches wait until brokers are filled or emptied"
        if self.roll.left or self.last_step is not None or self.servers_change:
            return "Further batches wait until pods are replaced"
        if self.settings.unknown or self.adoption.is_shut or not all(pod.ready for pod in self.pods):
            return "Further batches wait until all brokers serve"
        return None

    @property
    def controllers_are_held(self) -> bool:
        """Whether the roll of controllers waits for another one.

        A broker whose settings are not known may still have to restart.
        """
        is_ending = self.last_step is not None and self.last_step.problem is None
        return bool(self.roll.left) or is_ending or self.servers_change or bool(self.settings.unknown)

    @property
    def is_emptied(self) -> bool:
        """Whether the brokers that are to go have nothing left: found by this run, not remembered."""
        movement = self.move.movement
        return (
            movement is not None
            and movement.reason == Reason.DOWN
            and movement.left == 0
            and not self.move.is_held
            and self.unreachable is None
            and self.move.problem is None
        )
