"""The strictness with which pods of one kind are kept apart."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from odradek_operator.resources.schema import Choice
from odradek_operator.resources.structure import Doc


class Strictness(StrEnum):
    """Whether a pod may be put beside another of its kind where that makes the spread uneven."""

    AUTO = "Auto"
    REQUIRED = "Required"
    PREFERRED = "Preferred"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Over nodes and zones, for brokers, controllers and ZooKeeper servers alike."""

    nodes: Annotated[
        Strictness,
        Choice(Strictness),
        Doc(
            "Over nodes. Required: a node gets another pod of a kind only when no node that takes pods has fewer. A "
            "pod that finds none waits. Preferred: as far as it is possible. Auto: Required if there are as many "
            "nodes as pods when the set of pods is made, else Preferred. It stays so when nodes come and go, and "
            "becomes Preferred where a pod waits for two minutes because of it."
        ),
    ] = Strictness.AUTO
    zones: Annotated[
        Strictness,
        Choice(Strictness),
        Doc(
            "Over zones, which brokers.rackLabel or else the label topology.kubernetes.io/zone of nodes names. Auto: "
            "Required if every node is in a zone when the set of pods is made, and zones are three or as many as pods. "
            "Else Preferred, and kept as for nodes. Required also keeps pods off nodes without a zone."
        ),
    ] = Strictness.AUTO
