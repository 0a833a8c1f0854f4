"""Which objects belong to a Cluster: only these are changed or deleted.

An object belongs to a Cluster when its owner references have the Cluster's uid. An object without a controlling owner
but with this Cluster's labels was left on purpose (`kubectl delete --cascade=orphan`, a restored backup). The Cluster
adopts it. Every other object is foreign.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from odradek_operator.desired.names import CLUSTER_LABEL, MANAGED_BY, MANAGED_BY_LABEL
from odradek_operator.gateways.kubernetes import CLUSTERS, Json, metadata

_NAMED_MAX = 5


class Belonging(Enum):
    """Whose an object is: this Cluster's, an earlier one's of the same name, or foreign."""

    OWN = "own"
    EARLIER = "earlier"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignObject:
    """An object of another owner with a name that the Cluster needs. `holder` is its controller, if it has one."""

    kind: str
    name: str
    belonging: Belonging
    holder: str | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + (f" (of {self.holder})" if self.holder else "")


class ObjectsOfOthers(Exception):
    """Some of the names that the Cluster needs are taken. Nothing was changed in those objects."""

    is_expected = True

    def __init__(self, foreign: Sequence[ForeignObject]) -> None:
        self.foreign = tuple(foreign)
        self.are_earlier = all(one.belonging is Belonging.EARLIER for one in self.foreign)
        more = len(self.foreign) - _NAMED_MAX
        names = ", ".join(map(str, self.foreign[:_NAMED_MAX])) + (f" and {more} more" if more > 0 else "")
        if self.are_earlier:
            message = f"objects of an earlier Cluster of this name are still being deleted: {names}"
        else:
            message = (
                f"objects that are not this Cluster's have names that it needs: {names}. Neither they nor the Cluster "
                "are changed until then: rename or delete them, or make the Cluster under another name"
            )
        super().__init__(message)


def belonging(body: Json, *, cluster: str, uid: str) -> Belonging:
    """Whose an object is, asked for the Cluster of this name and uid."""
    owners = metadata(body).get("ownerReferences") or ()
    if any(one.get("uid") == uid for one in owners):
        return Belonging.OWN
    controller = _controller(body)
    if controller is None:
        labels = metadata(body).get("labels") or {}
        is_left_behind = labels.get(MANAGED_BY_LABEL) == MANAGED_BY and labels.get(CLUSTER_LABEL) == cluster
        return Belonging.OWN if is_left_behind else Belonging.OTHER
    is_cluster = controller.get("kind") == CLUSTERS.kind and controller.get("name") == cluster
    is_ours = (
        str(controller.get("apiVersion", "")).partition("/")[0] == CLUSTERS.group_version.partition("/")[0]
    )
    return Belonging.EARLIER if is_cluster and is_ours else Belonging.OTHER


def foreign_object(body: Json, *, cluster: str, uid: str) -> ForeignObject | None:
    """The object as one of another owner; None where it belongs to the Cluster."""
    found = belonging(body, cluster=cluster, uid=uid)
    if found is Belonging.OWN:
        return None
    controller = _controller(body)
    holder = f"{controller.get('kind')} {controller.get('name')}" if controller is not None else None
    return ForeignObject(
        kind=str(body["kind"]), name=str(metadata(body)["name"]), belonging=found, holder=holder
    )


def _controller(body: Json) -> Json | None:
    owners = metadata(body).get("ownerReferences") or ()
    return next((one for one in owners if one.get("controller")), None)
