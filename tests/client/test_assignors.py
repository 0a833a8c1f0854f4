"""The range assignor: every partition once, even stretches, members in Java's order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek.client.consumer.assignors import Subscriber, assign_range
from odradek.foundation.ids import TopicPartition


def test_stretches_are_even_and_the_first_members_take_one_more() -> None:
    members = [Subscriber("b", None, ["t"]), Subscriber("a", None, ["t"]), Subscriber("c", None, ["t"])]
    assigned = assign_range(members, {"t": 7})
    assert {member: [p.partition for p in parts] for member, parts in assigned.items()} == {
        "a": [0, 1, 2],
        "b": [3, 4],
        "c": [5, 6],
    }


def test_static_members_come_first_by_instance_id() -> None:
    members = [Subscriber("a", None, ["t"]), Subscriber("z", "1", ["t"]), Subscriber("y", "2", ["t"])]
    assigned = assign_range(members, {"t": 3})
    assert [assigned[member][0].partition for member in ("z", "y", "a")] == [0, 1, 2]


def test_a_member_reads_only_what_it_wants_and_a_missing_topic_is_left_out() -> None:
    members = [Subscriber("a", None, ["t", "gone"]), Subscriber("b", None, ["u"])]
    assigned = assign_range(members, {"t": 1, "u": 2})
    assert assigned == {
        "a": [TopicPartition("t", 0)],
        "b": [TopicPartition("u", 0), TopicPartition("u", 1)],
    }


topic_names = st.sampled_from(["t", "u", "v"])


@given(
    st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.sets(topic_names), min_size=1, max_size=6),
    st.dictionaries(topic_names, st.integers(0, 20)),
)
def test_every_wanted_partition_has_exactly_one_reader(
    wishes: dict[str, set[str]], counts: dict[str, int]
) -> None:
    members = [Subscriber(name, None, sorted(topics)) for name, topics in wishes.items()]
    assigned = assign_range(members, counts)
    taken = [partition for partitions in assigned.values() for partition in partitions]
    wanted = set().union(*wishes.values())
    expected = {TopicPartition(t, n) for t in wanted for n in range(counts.get(t, 0))}
    assert len(taken) == len(set(taken))
    assert set(taken) == expected
    for topic in wanted:
        sizes = [sum(p.topic == topic for p in assigned[name]) for name in wishes if topic in wishes[name]]
        assert max(sizes) - min(sizes) <= 1
