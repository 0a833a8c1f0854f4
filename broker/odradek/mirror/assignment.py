"""The shares that the leader of a mirror's group gives its members: pure.

All partitions in order, dealt to the members one by one, so that each topic and the whole are even. Each member also
gets its number among the members. Its transactional id ends with it: a few ids serve any number of workers. A worker
that starts ends what a dead one with its number left open.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, NamedTuple

from odradek.foundation.ids import TopicPartition

_NUMBER: Final = "number"
_MEMBERS: Final = "members"


class Place(NamedTuple):
    """A member's number, from 0 on, and how many members there are."""

    number: int
    members: int


def share_out(
    member_ids: Sequence[str], partitions: Sequence[TopicPartition]
) -> dict[str, tuple[list[TopicPartition], Place]]:
    """The partitions and the place of each member. All members compute the same from the same."""
    members = sorted(member_ids)
    count = len(members)
    return {
        member: (list(partitions[number::count]), Place(number, count))
        for number, member in enumerate(members)
    }


def encode_place(place: Place) -> bytes:
    """The place as the user data of an assignment."""
    return json.dumps({_NUMBER: place.number, _MEMBERS: place.members}).encode()


def decode_place(data: bytes | None) -> Place:
    """The place from the user data; that of an only member where there is none."""
    try:
        found = json.loads(data or b"{}")
        return Place(int(found[_NUMBER]), int(found[_MEMBERS]))
    except (ValueError, KeyError, TypeError):
        return Place(0, 1)
