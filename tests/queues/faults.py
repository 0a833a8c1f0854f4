"""The faults of the proof: which, when and whom, all from one seed; and how each begins and ends.

Most come one after the other. A third of them begins while the one before is in force. Whom a fault meets is decided
when it begins: the leader of a partition, of the dead-letter topic or of a coordinator's partition.
"""

from __future__ import annotations

import random
from collections import Counter
from enum import StrEnum
from typing import Final, NamedTuple

from tests.chaos.history import HistoryFile
from tests.chaos.in_force import FaultsInForce, Undo
from tests.chaos.network import CLIENTS
from tests.chaos.world import BROKERS, CONTROLLERS, ChaosCluster, broker, controller
from tests.queues.members import Members


class Kind(StrEnum):
    """What is done, and to whom."""

    KILL_LEADER = "leaders killed"
    STOP_LEADER = "leaders stopped"
    KILL_GROUP_COORDINATOR = "group coordinators killed"
    STOP_GROUP_COORDINATOR = "group coordinators stopped"
    KILL_SHARE_COORDINATOR = "share coordinators killed"
    STOP_SHARE_COORDINATOR = "share coordinators stopped"
    KILL_LETTERS_LEADER = "leaders of letters killed"
    KILL_CONTROLLER = "controllers killed"
    STOP_CONTROLLER = "controllers stopped"
    KILL_ZOOKEEPER = "ZooKeeper killed"
    STOP_ZOOKEEPER = "ZooKeeper stopped"
    CUT_CLIENTS = "clients cut off"
    KILL_MEMBER = "members killed"
    STOP_MEMBER = "members stopped"


# Members are met as often as all brokers together: each of the three clients has to be met.
_BAG: Final = (*Kind, Kind.KILL_MEMBER, Kind.KILL_MEMBER, Kind.STOP_MEMBER, Kind.STOP_MEMBER)
# Some faults are shorter than a session's timeout of four seconds, some longer.
LASTS_SECONDS: Final = (0.5, 8.0)
# Some stops of a member are shorter than its locks, some longer.
MEMBER_STOPS_SECONDS: Final = (0.5, 14.0)
PAUSE_SECONDS: Final = (1.0, 7.0)
_OVERLAPS: Final = 0.33


class Planned(NamedTuple):
    """One fault: when it begins, in seconds from the start, and how long it lasts. `choice` chooses among victims."""

    number: int
    at_seconds: float
    lasts_seconds: float
    kind: Kind
    choice: int


def plan(seed: int, seconds: float) -> list[Planned]:
    """The faults of so many seconds, the earliest first."""
    chance = random.Random(seed)
    found: list[Planned] = []
    bag: list[Kind] = []
    at = 3.0
    while at < seconds:
        if not bag:
            bag = list(_BAG)
            chance.shuffle(bag)
        kind = bag.pop()
        lasts = chance.uniform(*(MEMBER_STOPS_SECONDS if kind is Kind.STOP_MEMBER else LASTS_SECONDS))
        found.append(Planned(len(found), at, lasts, kind, chance.getrandbits(32)))
        at += chance.uniform(*PAUSE_SECONDS) + (0 if chance.random() < _OVERLAPS else lasts)
    return found


class QueueFaults:
    """`begin` what is planned, `tick` often, `heal` in the end."""

    def __init__(
        self,
        world: ChaosCluster,
        members: Members,
        history: HistoryFile,
        *,
        partitions: dict[str, int],
        group_partition: int,
    ) -> None:
        """`partitions` has the partitions of the topic, of the letters and of the states, in this order."""
        self._world = world
        self._members = members
        self._topic, self._letters, self._states = partitions.items()
        self._group_partition = group_partition
        self._in_force = FaultsInForce(history)
        self.counts: Counter[str] = Counter()

    def begin(self, planned: Planned) -> None:
        what, undo = self._do(planned)
        self.counts[planned.kind] += 1
        self._in_force.add(planned.number, what, undo, lasts_seconds=planned.lasts_seconds)

    def tick(self) -> None:
        """End what is over."""
        self._in_force.end_due()

    def heal(self) -> None:
        """End all; every process runs, or is about to."""
        self._in_force.end_all()
        self._world.start_zookeeper()
        for process in self._world.processes.values():
            process.start()

    # --- each kind -----------------------------------------------------------------------------------------------

    def _do(self, planned: Planned) -> tuple[str, Undo]:
        world, choice = self._world, planned.choice
        match planned.kind:
            case Kind.KILL_LEADER:
                return self._kill(self._leader(*self._topic, choice))
            case Kind.STOP_LEADER:
                return self._world.pause(self._leader(*self._topic, choice))
            case Kind.KILL_GROUP_COORDINATOR:
                return self._kill(self._coordinator(choice))
            case Kind.STOP_GROUP_COORDINATOR:
                return self._world.pause(self._coordinator(choice))
            case Kind.KILL_SHARE_COORDINATOR:
                return self._kill(self._leader(*self._states, choice))
            case Kind.STOP_SHARE_COORDINATOR:
                return self._world.pause(self._leader(*self._states, choice))
            case Kind.KILL_LETTERS_LEADER:
                return self._kill(self._leader(*self._letters, choice))
            case Kind.KILL_CONTROLLER:
                return self._kill(self._active(choice))
            case Kind.STOP_CONTROLLER:
                return self._world.pause(self._active(choice))
            case Kind.KILL_ZOOKEEPER:
                world.kill_zookeeper()
                return "ZooKeeper is killed", world.start_zookeeper
            case Kind.STOP_ZOOKEEPER:
                return self._world.pause_zookeeper()
            case Kind.CUT_CLIENTS:
                return self._cut_clients(choice)
            case Kind.KILL_MEMBER:
                return self._members.kill(choice)
            case Kind.STOP_MEMBER:
                return self._members.stop(choice)

    def _leader(self, topic: str, partitions: int, choice: int) -> str:
        """The leader of one of the partitions, or any broker while none answers."""
        leader = self._world.leader_of(topic, choice % partitions)
        return broker(leader if leader is not None else BROKERS[choice % len(BROKERS)])

    def _coordinator(self, choice: int) -> str:
        leader = self._world.leader_of("__consumer_offsets", self._group_partition)
        return broker(leader if leader is not None else BROKERS[choice % len(BROKERS)])

    def _active(self, choice: int) -> str:
        return self._world.active_controller() or controller(CONTROLLERS[choice % len(CONTROLLERS)])

    def _kill(self, name: str) -> tuple[str, Undo]:
        process = self._world.processes[name]
        process.kill()
        return f"kill -9 of {name}", process.start

    def _cut_clients(self, choice: int) -> tuple[str, Undo]:
        """What a broker sends to clients is lost, or what they send to it."""
        name = broker(BROKERS[choice % len(BROKERS)])
        way = (name, CLIENTS) if choice // 3 % 2 else (CLIENTS, name)
        self._world.network.cut(*way)
        return f"nothing goes from {way[0]} to {way[1]}", lambda: self._world.network.mend(*way)
