"""The objects that belong to a resource (a Cluster, a Mirror): only these are changed or deleted.

An object belongs to a resource when its owner references have the resource's uid. An object without a controlling owner
but with this resource's labels was left on purpose (`kubectl delete --cascade=orphan`, a restored backup). The resource
adopts it. Every other object is foreign.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from odradek_operator.desired.names import CLUSTER_LABEL, MANAGED_BY, MANAGED_BY_LABEL, MIRROR_LABEL
from odradek_operator.gateways.kubernetes import CLUSTERS, MIRRORS, Api, Json, metadata

_NAMED_MAX = 5


class OwnerKind(NamedTuple):
    """A kind of resources that objects are made for, and the label by which objects name theirs."""

    api: Api
    label: str


CLUSTER_OWNER: Final = OwnerKind(CLUSTERS, CLUSTER_LABEL)
MIRROR_OWNER: Final = OwnerKind(MIRRORS, MIRROR_LABEL)


class Belonging(Enum):
    """The owner of an object: this resource, an earlier one of the same name, or another."""

    OWN = "own"
    EARLIER = "earlier"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignObject:
    """An object of another owner with a name that the resource needs. `holder` is its controller, if it has one."""

    kind: str
    name: str
    belonging: Belonging
    holder: str | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + (f" (of {self.holder})" if self.holder else "")


class ObjectsOfOthers(Exception):
    """Some of the names that a resource needs are taken. Nothing was changed in those objects."""

    is_expected = True

    def __init__(self, foreign: Sequence[ForeignObject], *, kind: str = CLUSTERS.kind) -> None:
        self.foreign = tuple(foreign)
        self.are_earlier = all(one.belonging is Belonging.EARLIER for one in self.foreign)
        more = len(self.foreign) - _NAMED_MAX
        names = ", ".join(map(str, self.foreign[:_NAMED_MAX])) + (f" and {more} more" if more > 0 else "")
        if self.are_earlier:
            message = f"objects of an earlier {kind} of this name are still being deleted: {names}"
        else:
            message = (
                f"objects that are not this {kind}'s have names that it needs: {names}. Neither they nor the {kind} "
                f"are changed until then: rename or delete them, or make the {kind} under another name"
            )
        super().__init__(message)


def belonging(body: Json, *, name: str, uid: str, owner: OwnerKind = CLUSTER_OWNER) -> Belonging:
    """Return the owner of an object as seen from the resource of this kind, name and uid."""
    owners = metadata(body).get("ownerReferences") or ()
    if any(one.get("uid") == uid for one in owners):
        return Belonging.OWN
    controller = _controller(body)
    if controller is None:
        labels = metadata(body).get("labels") or {}
        is_left_behind = labels.get(MANAGED_BY_LABEL) == MANAGED_BY and labels.get(owner.label) == name
        return Belonging.OWN if is_left_behind else Belonging.OTHER
    is_named = controller.get("kind") == owner.api.kind and controller.get("name") == name
    group = owner.api.group_version.partition("/")[0]
    is_ours = str(controller.get("apiVersion", "")).partition("/")[0] == group
    return Belonging.EARLIER if is_named and is_ours else Belonging.OTHER


def foreign_object(
    body: Json, *, name: str, uid: str, owner: OwnerKind = CLUSTER_OWNER
) -> ForeignObject | None:
    """The object as one of another owner; None where it belongs to the resource."""
    found = belonging(body, name=name, uid=uid, owner=owner)
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
