"""Which resource has a thing that several name: the oldest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from odradek_operator.gateways.kubernetes import Json, metadata
from odradek_operator.reconcilers.reconciler import is_deleted


class Claim(NamedTuple):
    """A resource that names a thing. Sorts by age."""

    created: str
    uid: str
    name: str
    is_deleted: bool


class Claims:
    """Who names what, of all resources of one kind and namespace. `field` of the spec has the thing's name, or else the
    resource's own name is it.
    """

    def __init__(self, bodies: Iterable[Json], *, field: str) -> None:
        self._claims: dict[tuple[str, str], list[Claim]] = {}
        for body in bodies:
            meta, spec = metadata(body), body.get("spec") or {}
            claim = Claim(
                str(meta.get("creationTimestamp", "")), str(meta["uid"]), str(meta["name"]), is_deleted(body)
            )
            thing = str(spec.get("cluster")), str(spec.get(field) or meta["name"])
            self._claims.setdefault(thing, []).append(claim)
        for rivals in self._claims.values():
            rivals.sort()

    def older(self, uid: str, cluster: str, thing: str) -> str | None:
        """The name of the resource that has it, when that is another one than `uid`. One that is being deleted has it
        until it is gone.
        """
        rivals = self._claims.get((cluster, thing))
        return None if not rivals or rivals[0].uid == uid else rivals[0].name

    def sharers(self, uid: str, cluster: str, thing: str) -> int:
        """How many others name it and will stay."""
        rivals = self._claims.get((cluster, thing), ())
        return sum(not claim.is_deleted and claim.uid != uid for claim in rivals)
