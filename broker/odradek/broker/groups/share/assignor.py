"""The assignor of share groups: every partition has a member, and every member about as many partitions (KIP-932).

With as many partitions as members or more, each partition has one member. With fewer, each member has one partition,
which it shares with others. What members have stays theirs as far as that allows. Members that subscribe to different
topics are assigned one topic after the other.

Kafka's `simple` assignor has the same aims, and may give members more of the shared partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import Final, TypeVar
from uuid import UUID

from odradek.broker.groups.consumer.schema import Assignment
from odradek.foundation.named_tuple import NamedTuple

SIMPLE: Final = "simple"

Place = tuple[UUID, int]  # a partition, by the id of its topic
Item = TypeVar("Item", bound=Hashable)
Bin = TypeVar("Bin", bound=Hashable)


class ShareMember(NamedTuple):
    """What the assignor knows of a member: the topics that it subscribes to, and what it should have so far."""

    topics: frozenset[UUID]
    target: Assignment


def assign_shares(
    members: Mapping[str, ShareMember], partitions: Mapping[UUID, Collection[int]]
) -> dict[str, Assignment]:
    """The partitions of each member. `partitions` are those that may be assigned, by topic."""
    shares: dict[str, dict[UUID, set[int]]] = {member_id: {} for member_id in members}
    for team, topic_ids in _list_teams(members):
        places = [
            (topic_id, number) for topic_id in topic_ids for number in sorted(partitions.get(topic_id, ()))
        ]
        for member_id, (topic_id, number) in _spread(team, places, members):
            shares[member_id].setdefault(topic_id, set()).add(number)
    return {
        member_id: {topic_id: frozenset(numbers) for topic_id, numbers in share.items()}
        for member_id, share in shares.items()
    }


def _list_teams(members: Mapping[str, ShareMember]) -> Iterator[tuple[list[str], list[UUID]]]:
    """Members that share topics, with these topics: all of them, or those of one topic after the other."""
    topic_sets = {member.topics for member in members.values()}
    if len(topic_sets) == 1:
        yield sorted(members), sorted(topic_sets.pop())
        return
    teams: dict[UUID, list[str]] = {}
    for member_id, member in sorted(members.items()):
        for topic_id in member.topics:
            teams.setdefault(topic_id, []).append(member_id)
    for topic_id, team in sorted(teams.items()):
        yield team, [topic_id]


def _spread(
    team: Sequence[str], places: Sequence[Place], members: Mapping[str, ShareMember]
) -> Iterator[tuple[str, Place]]:
    """Each member with each of its partitions."""
    if not places:
        return
    known = set(places)
    before = {
        member_id: [
            (topic_id, number)
            for topic_id, numbers in sorted(members[member_id].target.items())
            for number in sorted(numbers)
            if (topic_id, number) in known
        ]
        for member_id in team
    }
    if len(places) < len(team):
        for member_id, place in _fill(team, places, before):
            yield member_id, place
        return
    owners: dict[Place, list[str]] = {}
    for member_id, owned in before.items():
        for place in owned:
            owners.setdefault(place, []).append(member_id)
    for place, member_id in _fill(places, team, owners):
        yield member_id, place


def _fill(
    items: Sequence[Item], bins: Sequence[Bin], before: Mapping[Item, Sequence[Bin]]
) -> Iterator[tuple[Item, Bin]]:
    """Each item with its bin. Bins get as many items within one, and items stay in the bin that they were in."""
    each, more = divmod(len(items), len(bins))
    rooms = dict.fromkeys(bins, each)
    homeless = []
    for item in items:
        home = None
        for one in before.get(item, ()):
            if rooms[one] > 0 or (rooms[one] == 0 and more > 0):
                home = one
                break
        if home is None:
            homeless.append(item)
            continue
        if rooms[home] == 0:
            more -= 1
            rooms[home] = -1
        else:
            rooms[home] -= 1
        yield item, home
    yield from zip(homeless, _list_rooms(rooms, more), strict=True)


def _list_rooms(rooms: Mapping[Bin, int], more: int) -> Iterator[Bin]:
    """The bins with room, once for each item that they may take; `more` of them take one beyond their number."""
    for one, room in rooms.items():
        yield from [one] * max(room, 0)
        if room >= 0 and more > 0:
            more -= 1
            yield one
