"""The workloads that run consumers: the one that a ConsumerGroup names, and those that a Cluster lets be scaled.

The operator scales with its own rights, which a user who may write a ConsumerGroup need not have. So the Cluster's
owner names what may be scaled, and nothing is by default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final

from odradek_operator.resources.schema import Choice, Text
from odradek_operator.resources.structure import Doc, Listing, Nested

SCALABLE_WORKLOADS_MAX: Final = 256


class WorkloadKind(StrEnum):
    """The kind of a workload that runs consumers."""

    DEPLOYMENT = "Deployment"
    STATEFUL_SET = "StatefulSet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The workload that runs a group's consumers."""

    kind: Annotated[WorkloadKind, Choice(WorkloadKind), Doc("Its kind.")] = WorkloadKind.DEPLOYMENT
    name: Annotated[str, Text(min_length=1, max_length=253), Doc("Its name, in the same namespace.")]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalableWorkload:
    """Workloads that ConsumerGroups may scale."""

    kind: Annotated[WorkloadKind, Choice(WorkloadKind), Doc("Their kind.")] = WorkloadKind.DEPLOYMENT
    name: Annotated[
        str,
        Text(
            pattern=r"^[a-z0-9*]([a-z0-9.*-]*[a-z0-9*])?$",
            min_length=1,
            max_length=253,
            what="a workload's name, in which * stands for any characters",
        ),
        Doc("Their name. A `*` stands for any characters: `billing-*`."),
    ]

    def covers(self, workload: Workload) -> bool:
        pattern = ".*".join(re.escape(part) for part in self.name.split("*"))
        return self.kind is workload.kind and re.fullmatch(pattern, workload.name) is not None


SCALABLE_WORKLOADS: Final = Listing(Nested(ScalableWorkload), max_items=SCALABLE_WORKLOADS_MAX)


def scalable_workloads(cluster: Mapping[str, Any]) -> tuple[ScalableWorkload, ...]:
    """The workloads that the Cluster with this body lets be scaled. Nothing, where its list cannot be read."""
    problems: list[str] = []
    given = (cluster.get("spec") or {}).get("scalableWorkloads") or ()
    found = SCALABLE_WORKLOADS.parse(given, "spec.scalableWorkloads", problems)
    return () if problems else tuple(found)
