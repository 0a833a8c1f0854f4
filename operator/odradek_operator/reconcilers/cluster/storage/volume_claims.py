"""Volumes: which claims grow, and whether a StatefulSet is made again because its claim template cannot change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from odradek_operator.desired.names import VOLUME
from odradek_operator.gateways.kubernetes import Json, metadata
from odradek_operator.reconcilers.cluster.facts import VolumeAtRisk
from odradek_operator.resources.schema import quantity_value


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """A claim that is to ask for more."""

    claim: str
    uid: str
    size: str


def claims_to_grow(claims: Iterable[Json], *, size: str) -> tuple[Growth, ...]:
    """The claims that ask for less than wanted. A claim that asks for more was grown by hand, and stays."""
    grown: list[Growth] = []
    for claim in claims:
        if metadata(claim).get("deletionTimestamp"):
            continue
        asked = ((claim.get("spec") or {}).get("resources") or {}).get("requests", {}).get("storage", "0")
        if quantity_value(str(asked)) < quantity_value(size):
            grown.append(
                Growth(claim=metadata(claim)["name"], uid=str(metadata(claim).get("uid", "")), size=size)
            )
    return tuple(grown)


def claims_to_replace(claims: Iterable[Json], *, old: str | None, new: str | None) -> list[Json]:
    """The claims that wait for a volume of a wrong storage class, where the class changes from `old` to `new`.

    Claims that an interrupted earlier run has left with the old class are among them.
    """
    return [
        claim
        for claim in claims
        if (old != new or (new is not None and storage_class(claim) != new))
        and not is_bound(claim)
        and not metadata(claim).get("deletionTimestamp")
    ]


def risk_of(claim: Json) -> VolumeAtRisk | None:
    """Why the volume of a claim goes as soon as no pod uses it; None where it stays.

    Kubernetes keeps a claim that was deleted for as long as a pod uses it (`kubernetes.io/pvc-protection`).
    """
    about = metadata(claim)
    if not is_bound(claim):
        return None
    if about.get("deletionTimestamp"):
        why = "is being deleted"
    elif (claim.get("status") or {}).get("phase") == "Lost":
        why = "has lost its volume"
    else:
        return None
    volume = (claim.get("spec") or {}).get("volumeName")
    return VolumeAtRisk(claim=str(about["name"]), volume=None if volume is None else str(volume), why=why)


def pod_of(claim: str) -> str:
    """The pod that a StatefulSet makes for a claim."""
    return claim.removeprefix(f"{VOLUME}-")


def must_be_made_again(there: Json | None, wanted: Json) -> bool:
    """Whether a StatefulSet has another claim template than wanted.

    Kubernetes does not allow to change the template. Pods of the deleted set stay, and the new set adopts them.
    """
    return there is not None and _claim(there) != _claim(wanted)


def is_bound(claim: Json) -> bool:
    """Whether a claim has got a volume, or may have: only one that Kubernetes calls pending has none."""
    has_name = bool((claim.get("spec") or {}).get("volumeName"))
    return has_name or (claim.get("status") or {}).get("phase") != "Pending"


def claims_of(claims: Iterable[Json], stateful_set: str) -> list[Json]:
    """The claims that a StatefulSet made."""
    found = []
    for claim in claims:
        prefix, _, number = str(metadata(claim)["name"]).rpartition("-")
        if prefix == f"{VOLUME}-{stateful_set}" and number.isdecimal():
            found.append(claim)
    return found


def storage_class(claim: Json) -> str | None:
    """The storage class of a claim or of a claim's template."""
    found = (claim.get("spec") or {}).get("storageClassName")
    return None if found is None else str(found)


def claim_template(stateful_set: Json) -> Json:
    """The claim that a StatefulSet makes for each pod."""
    (template,) = (stateful_set.get("spec") or {}).get("volumeClaimTemplates") or [{}]
    return dict(template)


def with_class(stateful_set: Json, class_: str | None) -> Json:
    """The StatefulSet with another storage class in its claims."""
    template = claim_template(stateful_set)
    spec = {key: value for key, value in template["spec"].items() if key != "storageClassName"}
    if class_ is not None:
        spec["storageClassName"] = class_
    content = stateful_set["spec"] | {"volumeClaimTemplates": [template | {"spec": spec}]}
    return stateful_set | {"spec": content}


def _claim(stateful_set: Json) -> tuple[float, Json, Json, str | None]:
    """The parts of a StatefulSet's claim for a pod that may change: its size, labels, annotations and class."""
    template = claim_template(stateful_set)
    requests = ((template.get("spec") or {}).get("resources") or {}).get("requests") or {}
    about, size = metadata(template), quantity_value(str(requests.get("storage", "0")))
    return size, about.get("labels") or {}, about.get("annotations") or {}, storage_class(template)
