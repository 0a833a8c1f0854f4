"""The owner among resources that name the same thing: the oldest, or the lower uid within one second."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from odradek_operator.gateways.kubernetes import Json, metadata
from odradek_operator.reconcilers.reconciler import is_deleted


class Claim(NamedTuple):
    """A resource that names a thing. Sorts by age, then uid."""

    created: str
    uid: str
    name: str
    is_deleted: bool


class Claims:
    """The resources of one kind and namespace by the thing that they name.

    The thing's name is in `field` of the spec; without it the resource's name is the thing's.
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
        """The name of the resource that owns it, and why, where that is not `uid`.

        A resource that is being deleted owns it until it is gone. Ages are in whole seconds. Of two resources made in
        one second the lower uid owns it, so that the choice stays.
        """
        rivals = self._claims.get((cluster, thing))
        if not rivals or rivals[0].uid == uid:
            return None
        holder = rivals[0]
        mine = next((claim for claim in rivals if claim.uid == uid), None)
        if mine is not None and mine.created == holder.created:
            return f"{holder.name}, which was made in the same second and has the lower uid"
        return f"{holder.name}, which is older"

    def sharers(self, uid: str, cluster: str, thing: str) -> int:
        """The number of others that name it and will stay."""
        rivals = self._claims.get((cluster, thing), ())
        return sum(not claim.is_deleted and claim.uid != uid for claim in rivals)
