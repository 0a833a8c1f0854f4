"""The assignor of share groups: no member idle, nothing unread, even shares, and few moves."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.groups.consumer.schema import Assignment
from odradek.broker.groups.share.assignor import ShareMember, assign_shares

TOPICS = [UUID(int=number) for number in range(1, 4)]
Partitions = dict[UUID, list[int]]


def places_of(assignment: Assignment) -> set[tuple[UUID, int]]:
    return {(topic_id, number) for topic_id, numbers in assignment.items() for number in numbers}


def check_assignment(
    members: dict[str, ShareMember], partitions: Partitions, shares: dict[str, Assignment]
) -> None:
    read: dict[tuple[UUID, int], int] = {}
    for member_id, share in shares.items():
        for place in places_of(share):
            assert place[0] in members[member_id].topics
            assert place[1] in partitions[place[0]]
            read[place] = read.get(place, 0) + 1
    wanted = {
        (topic_id, number)
        for member in members.values()
        for topic_id in member.topics
        for number in partitions.get(topic_id, ())
    }
    assert read.keys() == wanted
    for member_id, member in members.items():
        has_work = any(partitions.get(topic_id) for topic_id in member.topics)
        alone = {one.topics for one in members.values()} == {member.topics}
        if has_work and alone:
            assert shares[member_id], "a member without partitions, where all subscribe to the same"


partitions_of_topics = st.fixed_dictionaries(
    {topic_id: st.lists(st.integers(0, 9), unique=True) for topic_id in TOPICS}
)
topic_sets = st.frozensets(st.sampled_from(TOPICS))


@given(partitions_of_topics, st.lists(topic_sets, min_size=1, max_size=12), st.data())
def test_every_partition_is_read_and_nothing_is_given_beyond_it(
    partitions: Partitions, subscriptions: list[frozenset[UUID]], data: st.DataObject
) -> None:
    members = {f"m{number}": ShareMember(topics, {}) for number, topics in enumerate(subscriptions)}
    shares = assign_shares(members, partitions)
    check_assignment(members, partitions, shares)
    kept = {one: ShareMember(member.topics, shares[one]) for one, member in members.items()}
    assert assign_shares(kept, partitions) == shares, "an assignment that changes without a cause"
    gone = data.draw(st.sampled_from(sorted(kept)))
    left = {one: member for one, member in kept.items() if one != gone}
    check_assignment(left, partitions, assign_shares(left, partitions))


@given(st.integers(1, 30), st.integers(1, 30))
def test_shares_are_even_where_all_subscribe_to_the_same(members: int, partitions: int) -> None:
    topic_id = TOPICS[0]
    team = {f"m{number:02}": ShareMember(frozenset((topic_id,)), {}) for number in range(members)}
    shares = assign_shares(team, {topic_id: range(partitions)})
    sizes = sorted(len(places_of(share)) for share in shares.values())
    assert sizes[-1] - sizes[0] <= 1
    readers = [
        sum((topic_id, number) in places_of(share) for share in shares.values())
        for number in range(partitions)
    ]
    assert max(readers) - min(readers) <= 1
    assert sum(sizes) == max(members, partitions)


def test_a_new_member_takes_no_more_than_its_part() -> None:
    topic_id = TOPICS[0]
    topics = frozenset((topic_id,))
    before = assign_shares({one: ShareMember(topics, {}) for one in "ab"}, {topic_id: range(6)})
    members = {one: ShareMember(topics, before.get(one, {})) for one in "abc"}
    after = assign_shares(members, {topic_id: range(6)})
    moved = sum(len(places_of(before[one]) - places_of(after[one])) for one in "ab")
    assert moved == len(places_of(after["c"])) == 2
