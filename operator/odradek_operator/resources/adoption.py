"""What a Cluster does with users that an earlier one has left on its volumes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from odradek_operator.resources.schema import Choice
from odradek_operator.resources.structure import Doc


class UnclaimedUsers(StrEnum):
    """The policy for users that no User names."""

    KEEP = "Keep"
    REMOVE = "Remove"


class AdoptionState(StrEnum):
    """How far a Cluster is with what an earlier one has left."""

    HELD = "Held"
    OPENING = "Opening"
    LOOKING = "Looking"
    DONE = "Done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """The adoption of volumes, or of a registry, that an earlier Cluster has left."""

    unclaimed_users: Annotated[
        UnclaimedUsers,
        Choice(UnclaimedUsers),
        Doc(
            "What becomes of users that no User names: those made by hand, and those of a User with deletionPolicy "
            "Retain. `Keep`: they keep their logins and rights, and the status shows them. `Remove`: their passwords, "
            "access control lists and quotas go before listeners for clients open. What a User with deletionPolicy "
            "Delete has left is removed either way."
        ),
    ] = UnclaimedUsers.KEEP
