"""The parts of a pod template that users may choose for the pods that the operator makes.

Security contexts are not among them, but for the numbers of users and groups (`RunAs`). Pods always run without root,
privileges or a writable root file system, so that they pass Kubernetes' restricted standard.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Final

from odradek_operator.resources.schema import INT32_MAX, Flag, Open, OpenList, Quantity, Text, Whole
from odradek_operator.resources.structure import Doc, Rule, Table

LABELS: Final = Table(Text(max_length=4096), max_entries=64)
IMAGE: Final = Text(min_length=1, max_length=512, pattern=r"^[^\s]+$", what="an image's name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """Additions to a pod template."""

    labels: Annotated[
        Mapping[str, str] | None, LABELS, Doc("More labels. Those that the operator sets win.")
    ] = None
    annotations: Annotated[Mapping[str, str] | None, LABELS, Doc("More annotations.")] = None
    node_selector: Annotated[
        Mapping[str, str] | None, LABELS, Doc("Labels that a node must have to get a pod.")
    ] = None
    affinity: Annotated[
        Mapping[str, object] | None, Open("Kubernetes' Affinity"), Doc("Affinity to nodes and other pods.")
    ] = None
    tolerations: Annotated[
        tuple[Mapping[str, object], ...] | None,
        OpenList("list of Kubernetes' Toleration"),
        Doc("Taints of nodes that pods may be put up with."),
    ] = None
    topology_spread_constraints: Annotated[
        tuple[Mapping[str, object], ...] | None,
        OpenList("list of Kubernetes' TopologySpreadConstraint"),
        Doc("How pods are spread. Without it: evenly over nodes and zones, as strictly as spec.spread says."),
    ] = None
    priority_class_name: Annotated[str | None, Text(max_length=253), Doc("The priority of pods.")] = None
    scheduler_name: Annotated[str | None, Text(max_length=253), Doc("Another scheduler.")] = None
    termination_grace_period_seconds: Annotated[
        int | None,
        Whole(minimum=1, maximum=86_400),
        Doc("How long a pod may take to stop. Without it: 120 for brokers, 30 for the others."),
    ] = None
    image_pull_secrets: Annotated[
        tuple[Mapping[str, object], ...] | None,
        OpenList("list of names of Secrets"),
        Doc("Secrets for the image registry, as `[{name: registry}]`."),
    ] = None
    env: Annotated[
        tuple[Mapping[str, object], ...] | None,
        OpenList("list of Kubernetes' EnvVar"),
        Doc("More environment variables of the container."),
    ] = None
    volumes: Annotated[
        tuple[Mapping[str, object], ...] | None, OpenList("list of Kubernetes' Volume"), Doc("More volumes.")
    ] = None
    volume_mounts: Annotated[
        tuple[Mapping[str, object], ...] | None,
        OpenList("list of Kubernetes' VolumeMount"),
        Doc("Where more volumes appear in the container."),
    ] = None
    sidecars: Annotated[
        tuple[Mapping[str, object], ...] | None,
        OpenList("list of Kubernetes' Container"),
        Doc("More containers beside the operator's own."),
    ] = None
    init_containers: Annotated[
        tuple[Mapping[str, object], ...] | None,
        OpenList("list of Kubernetes' Container"),
        Doc("Containers that run before the operator's own. One with `restartPolicy: Always` stays."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAs:
    """The users and groups that pods run as."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.assigned) || !self.assigned || !(has(self.user) || has(self.group) || has(self.fsGroup))",
            "with assigned the platform gives users and groups: leave out user, group and fsGroup",
        ),
    )

    assigned: Annotated[
        bool, Flag(), Doc("The platform gives users and groups, as OpenShift does. Pods name none.")
    ] = False
    user: Annotated[
        int | None, Whole(minimum=1, maximum=INT32_MAX), Doc("The user's number. Without it: 10001.")
    ] = None
    group: Annotated[
        int | None, Whole(minimum=0, maximum=INT32_MAX), Doc("The group's number. Without it: 10001.")
    ] = None
    fs_group: Annotated[
        int | None,
        Whole(minimum=1, maximum=INT32_MAX),
        Doc("The group that volumes belong to. Without it: 10001."),
    ] = None


RUN_AS_DOC: Final = Doc(
    "The users and groups that pods run as. Choose them when this is made: files on volumes belong to the former user."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectMetadata:
    """Labels and annotations of all that is made for a Cluster."""

    labels: Annotated[
        Mapping[str, str] | None,
        LABELS,
        Doc("More labels. Those that the operator sets win, and labels of one kind of pod win over these."),
    ] = None
    annotations: Annotated[Mapping[str, str] | None, LABELS, Doc("More annotations, likewise.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The resources that a container requests, and their limits."""

    requests: Annotated[
        Mapping[str, str] | None,
        Table(Quantity(), max_entries=16),
        Doc("What the scheduler sets aside, as `{cpu: 500m, memory: 1Gi}`."),
    ] = None
    limits: Annotated[
        Mapping[str, str] | None,
        Table(Quantity(), max_entries=16),
        Doc("What the container may use at most."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """A volume for each pod."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "quantity(string(self.size)).compareTo(quantity(string(oldSelf.size))) >= 0",
            "volumes can grow, not shrink: give at least the size they have",
        ),
    )

    size: Annotated[
        str, Quantity(), Doc("How much each volume holds. It can grow, where the storage class allows it.")
    ] = "10Gi"
    class_: Annotated[
        str | None,
        Text(max_length=253),
        Doc(
            "The storage class. Without it: the default of the Kubernetes cluster. It can be corrected until a claim "
            "has got its volume."
        ),
    ] = None
    labels: Annotated[
        Mapping[str, str] | None,
        LABELS,
        Doc("More labels of volume claims; those that are there keep theirs."),
    ] = field(default=None)


def class_is_fixed(component: str, *parents: str) -> Rule:
    """A rule of the whole Cluster: a storage class may be corrected until a claim is bound, as its status says."""

    def class_of(root: str) -> str:
        path, there = f"{root}.spec", []
        for name in (*parents, "storage", "class"):
            path = f"{path}.{name}"
            there.append(f"has({path})")
        return f"({' && '.join(there)} ? {path} : '')"

    is_bound = (
        f"has(self.status) && has(self.status.boundVolumes) && '{component}' in self.status.boundVolumes"
    )
    return Rule(
        f"!({is_bound}) || {class_of('self')} == {class_of('oldSelf')}",
        f"spec.{'.'.join(parents)}.storage.class cannot be changed: volumes keep the one they were made with. "
        "Set it back, or move to a new Cluster",
    )
