"""The status of a Cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from odradek_operator.resources.adoption import AdoptionState
from odradek_operator.resources.balance import BalanceStatus
from odradek_operator.resources.brokers import BROKERS_MAX, POOLS_MAX
from odradek_operator.resources.conditions import (
    CONDITIONS,
    CONDITIONS_DOC,
    OBSERVED_GENERATION,
    OBSERVED_GENERATION_DOC,
    Condition,
)
from odradek_operator.resources.listeners import LISTENERS_MAX
from odradek_operator.resources.schema import Choice, Text, Whole
from odradek_operator.resources.structure import Doc, Listing, Nested

UNCLAIMED_SHOWN_MAX: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Pods:
    """The numbers of pods: wanted, ready, and as the resource wants them."""

    wanted: Annotated[int, Whole(), Doc("How many are wanted.")] = 0
    ready: Annotated[int, Whole(), Doc("How many serve.")] = 0
    current: Annotated[int, Whole(), Doc("How many are as the resource wants them.")] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerStatus:
    """A listener's addresses."""

    name: Annotated[str, Text(), Doc("The listener.")]
    type: Annotated[str, Text(), Doc("From where it can be reached.")]
    bootstrap: Annotated[str | None, Text(), Doc("Where clients begin.")] = None
    brokers: Annotated[
        tuple[str, ...],
        Listing(Text(), max_items=BROKERS_MAX),
        Doc("Each broker's address, in the order of their numbers."),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """Partitions on their way between brokers."""

    reason: Annotated[str, Text(), Doc("ScaleUp or ScaleDown.")]
    total: Annotated[int, Whole(), Doc("How many partitions had to move.")] = 0
    left: Annotated[int, Whole(), Doc("How many still have to.")] = 0
    brokers: Annotated[
        tuple[int, ...],
        Listing(Whole(), max_items=BROKERS_MAX),
        Doc("The brokers that are filled or emptied."),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolStatus:
    """The brokers of one pool."""

    name: Annotated[str, Text(), Doc("The pool; empty for the brokers from number 0 on.")] = ""
    wanted: Annotated[int, Whole(), Doc("How many are wanted.")] = 0
    ready: Annotated[int, Whole(), Doc("How many serve.")] = 0
    current: Annotated[int, Whole(), Doc("How many have the newest pod template.")] = 0
    brokers: Annotated[
        tuple[int, ...], Listing(Whole(), max_items=BROKERS_MAX), Doc("The numbers of those that are there.")
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsembleStatus:
    """ZooKeeper's own configuration, as it was read last."""

    voters: Annotated[
        tuple[int, ...], Listing(Whole(), max_items=16), Doc("The ids of the servers that vote, from 1.")
    ] = ()
    version: Annotated[str, Text(), Doc("The configuration's version, hexadecimal.")] = "0"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """A cluster as it is."""

    observed_generation: Annotated[int | None, OBSERVED_GENERATION, OBSERVED_GENERATION_DOC] = None
    conditions: Annotated[tuple[Condition, ...], CONDITIONS, CONDITIONS_DOC] = ()
    brokers: Annotated[Pods | None, Nested(Pods), Doc("The brokers.")] = None
    pools: Annotated[
        tuple[PoolStatus, ...],
        Listing(Nested(PoolStatus), max_items=2 * (POOLS_MAX + 1)),
        Doc("The brokers by pool, where there are pools."),
    ] = ()
    controllers: Annotated[Pods | None, Nested(Pods), Doc("The controllers.")] = None
    zookeeper: Annotated[
        Pods | None, Nested(Pods), Doc("The ZooKeeper servers, where they are run here.")
    ] = None
    ensemble: Annotated[
        EnsembleStatus | None, Nested(EnsembleStatus), Doc("The voters of the ZooKeeper that is run here.")
    ] = None
    bootstrap: Annotated[str | None, Text(), Doc("Where clients inside of Kubernetes begin.")] = None
    zookeeper_connect: Annotated[
        str | None, Text(), Doc("What clients of ZooKeeper connect to, once they are admitted.")
    ] = None
    console: Annotated[
        str | None, Text(), Doc("The address of the console inside of Kubernetes, where there is one.")
    ] = None
    listeners: Annotated[
        tuple[ListenerStatus, ...], Listing(Nested(ListenerStatus), max_items=LISTENERS_MAX), Doc("Ways in.")
    ] = ()
    image: Annotated[str | None, Text(), Doc("The image that all brokers run.")] = None
    version: Annotated[str | None, Text(), Doc("That image's tag.")] = None
    newest_version: Annotated[
        str | None,
        Text(),
        Doc("The newest version that brokers have run or begun to run: what they wrote has its formats."),
    ] = None
    cluster_id: Annotated[str | None, Text(), Doc("The cluster's id.")] = None
    movement: Annotated[
        Movement | None, Nested(Movement), Doc("Partitions that move between brokers, while they do.")
    ] = None
    balance: Annotated[
        BalanceStatus | None,
        Nested(BalanceStatus),
        Doc("The last rebalance, once there was one or its plan."),
    ] = None
    restart: Annotated[
        str | None, Text(max_length=4096), Doc("The last value of the annotation odradek.io/restart.")
    ] = None
    live_settings: Annotated[
        tuple[str, ...],
        Listing(Text(), max_items=256),
        Doc("Settings that were changed while brokers ran, and are kept as brokers' common defaults."),
    ] = ()
    bound_volumes: Annotated[
        tuple[str, ...],
        Listing(Text(), max_items=2),
        Doc(
            "Whose volume claims have got volumes, `broker` or `zookeeper`: their storage class is fixed then."
        ),
    ] = ()
    adoption: Annotated[
        AdoptionState | None,
        Choice(AdoptionState),
        Doc(
            "How far the Cluster is with what an earlier one has left. `Held`: until that is deleted. `Opening`: until "
            "brokers have all listeners. `Looking`: for users without a User. `Done`."
        ),
    ] = None
    unclaimed_users: Annotated[
        tuple[str, ...],
        Listing(Text(), max_items=UNCLAIMED_SHOWN_MAX),
        Doc("Users that an earlier Cluster has left and no User names; the first 64."),
    ] = ()
    unclaimed_topics: Annotated[
        tuple[str, ...],
        Listing(Text(), max_items=UNCLAIMED_SHOWN_MAX),
        Doc(
            "Topics that were to go with their Topic in an earlier Cluster, and have none now; the first 64."
        ),
    ] = ()
