"""Volumes: which claims grow, and whether a StatefulSet must be made anew because its claim template cannot be
changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from odradek_operator.desired.names import VOLUME
from odradek_operator.gateways.kubernetes import Json, metadata
from odradek_operator.resources.schema import quantity_value


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """A claim that is to ask for more."""

    claim: str
    uid: str
    size: str


def claims_to_grow(claims: Iterable[Json], *, stateful_set: str, size: str) -> tuple[Growth, ...]:
    """The claims of a StatefulSet that ask for less than wanted. One that asks for more was grown by hand; it stays."""
    grown: list[Growth] = []
    for claim in claims:
        name = metadata(claim)["name"]
        if not name.startswith(f"{VOLUME}-{stateful_set}-") or metadata(claim).get("deletionTimestamp"):
            continue
        asked = ((claim.get("spec") or {}).get("resources") or {}).get("requests", {}).get("storage", "0")
        if quantity_value(str(asked)) < quantity_value(size):
            grown.append(Growth(claim=name, uid=str(metadata(claim).get("uid", "")), size=size))
    return tuple(grown)


def must_be_made_anew(there: Json | None, wanted: Json) -> bool:
    """Whether a StatefulSet makes other claims than wanted, which it cannot be told: its pods are left alone, and taken
    up by the new one.
    """
    return there is not None and _claim(there) != _claim(wanted)


def _claim(stateful_set: Json) -> tuple[float, Json]:
    """What may change in the claim that a StatefulSet makes for a pod: its size and its labels."""
    (template,) = (stateful_set.get("spec") or {}).get("volumeClaimTemplates") or [{}]
    requests = ((template.get("spec") or {}).get("resources") or {}).get("requests") or {}
    return quantity_value(str(requests.get("storage", "0"))), metadata(template).get("labels") or {}
