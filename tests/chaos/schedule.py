"""Which faults a round has, and when: all from one seed, before it begins.

Kinds are drawn from a bag that is filled again when it is empty, so that a few rounds have had every kind. A fault
names its target by a number. Which process that is (the leader, the active controller) is decided when it begins, since
no seed decides how fast processes are.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """What can be done to a cluster."""

    KILL_BROKER = "kill -9 of a broker"
    KILL_LEADER = "kill -9 of a leader"
    KILL_ALL_BROKERS = "kill -9 of all brokers"
    PAUSE_BROKER = "a broker is stopped (SIGSTOP)"
    PAUSE_LEADER = "a leader is stopped (SIGSTOP)"
    RESTART_BROKER = "a broker is restarted in order"
    RESTART_ALL = "all brokers are restarted in order, one after the other"
    KILL_CONTROLLER = "kill -9 of the active controller"
    PAUSE_CONTROLLER = "the active controller is stopped (SIGSTOP)"
    RESTART_ZOOKEEPER = "ZooKeeper is killed and started again"
    PAUSE_ZOOKEEPER = "ZooKeeper is stopped (SIGSTOP)"
    EXPIRE_LEADER = "the session of a leader expires"
    EXPIRE_CONTROLLER = "the session of the active controller expires"
    CUT_BROKERS = "two brokers do not reach each other"
    CUT_ONE_WAY = "a broker gets no messages of another"
    CUT_LEADER_FROM_BROKERS = "a leader is cut off from the other brokers"
    CUT_FROM_ALL = "a broker is cut off from everything"
    CUT_FROM_ZOOKEEPER = "a leader is cut off from ZooKeeper"
    CUT_FROM_CONTROLLERS = "a broker is cut off from the controllers"
    CUT_CONTROLLER = "the active controller is cut off from ZooKeeper"
    CUT_CLIENTS = "clients are cut off from a broker"
    MOVE_PARTITION = "a partition moves between brokers"
    WIPE_REPLICA = "a broker is killed and loses a replica's log"
    FILL_DISK = "the disk of a broker is full"
    CHURN_GROUP = "a member of a group comes, leaves or dies"
    PAUSE_MEMBER = "a member of a group is stopped (SIGSTOP)"


# Seconds that a fault lasts: some shorter than a session's timeout of four seconds, some longer.
_SHORT: Final = (0.2, 2.0)
_LONG: Final = (2.0, 8.0)
PAUSE_SECONDS: Final = (0.8, 4.0)
QUIET_SECONDS: Final = 1.5  # before the first fault, so that all processes have begun


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One fault: when it begins, in seconds from the round's beginning, and how long it lasts."""

    number: int
    at_seconds: float
    lasts_seconds: float
    kind: Kind
    choice: int
    """A large number by which its victims are chosen among those there are."""


def plan(seed: int, seconds: float) -> list[Planned]:
    """The faults of a round, in order; all are over by its end."""
    chance = random.Random(seed)
    faults: list[Planned] = []
    bag: list[Kind] = []
    at = QUIET_SECONDS
    while at < seconds - _SHORT[0]:
        if not bag:
            bag = list(Kind)
            chance.shuffle(bag)
        lasts = chance.uniform(*chance.choice((_SHORT, _LONG)))
        faults.append(
            Planned(
                number=len(faults),
                at_seconds=round(at, 2),
                lasts_seconds=round(min(lasts, seconds - at), 2),
                kind=bag.pop(),
                choice=chance.getrandbits(32),
            )
        )
        at += chance.uniform(*PAUSE_SECONDS)
    return faults
