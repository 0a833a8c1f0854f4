"""What the churn of real consumers concludes from their commits: it finds second owners, and reports nothing else."""

from __future__ import annotations

from math import inf

from tests.support.group_commits import Commit, LoggedCommits, faults

PARTITION = 3


def commit(
    name: str, position: int, *, assigned_at: float, begun_at: float, acknowledged_at: float = inf
) -> Commit:
    """A commit of member `MEMBER.COUNT` on its partition alone."""
    return Commit(
        name,
        int(name.split(".", maxsplit=1)[0]),
        begun_at,
        positions={PARTITION: position},
        assigned_at={PARTITION: assigned_at},
        acknowledged_at=acknowledged_at,
    )


def found(
    commits: list[Commit], logged: list[tuple[str, int]] | None = None, *, compacted_count: int | None = None
) -> list[str]:
    """The faults of a log with `commits` in their order, or of the one given; None: nothing was compacted."""
    in_order = [(made.name, made.positions[PARTITION]) for made in commits]
    entries = LoggedCommits(
        in_order if logged is None else logged,
        is_compacted=compacted_count is not None,
        compacted_count=compacted_count or 0,
    )
    return faults({made.name: made for made in commits}, {PARTITION: entries})


def test_a_partition_that_changes_owners_once_is_right() -> None:
    first = commit("1.1", 10, assigned_at=0, begun_at=1, acknowledged_at=2)
    second = commit("2.1", 20, assigned_at=3, begun_at=4, acknowledged_at=5)
    again = commit("1.2", 30, assigned_at=6, begun_at=7, acknowledged_at=8)
    assert found([first, second, again]) == []


def test_a_member_that_learns_late_of_a_loss_is_no_second_owner() -> None:
    """It held it for all it knew, beside the next one, and even tried to commit; the broker refused."""
    first = commit("1.1", 10, assigned_at=0, begun_at=1, acknowledged_at=2)
    second = commit("2.1", 20, assigned_at=3, begun_at=4, acknowledged_at=5)
    refused = commit("1.2", 15, assigned_at=0, begun_at=4)
    assert found([first, second, refused], [("1.1", 10), ("2.1", 20)]) == []


def test_two_members_that_commit_by_turns_both_own() -> None:
    first = commit("1.1", 10, assigned_at=0, begun_at=1, acknowledged_at=2)
    second = commit("2.1", 20, assigned_at=1, begun_at=3, acknowledged_at=4)
    beside = commit("1.2", 30, assigned_at=0, begun_at=5, acknowledged_at=6)
    (fault,) = found([first, second, beside])
    assert "1.2" in fault
    assert "is after another member's 2.1" in fault


def test_commits_of_disowned_partitions_only_have_to_exist() -> None:
    disowned = commit("1.1", 20, assigned_at=1, begun_at=3, acknowledged_at=4)
    owner = commit("2.1", 10, assigned_at=2, begun_at=5, acknowledged_at=6)
    assert len(found([disowned, owner])) == 2
    disowned.disowned.add(PARTITION)
    assert found([disowned, owner]) == []
    assert len(found([disowned, owner], [("2.1", 10)])) == 1


def test_an_earlier_owner_may_not_commit_after_a_later_one() -> None:
    other = commit("2.1", 10, assigned_at=0, begun_at=3, acknowledged_at=4)
    beside = commit("1.1", 20, assigned_at=2, begun_at=5, acknowledged_at=6)
    assert len(found([other, beside])) == 1


def test_what_was_sent_before_the_partition_was_lost_is_not_taken_after() -> None:
    late = commit("1.1", 20, assigned_at=0, begun_at=1)
    next_one = commit("2.1", 10, assigned_at=2, begun_at=3, acknowledged_at=4)
    assert any("is after another member's 2.1" in fault for fault in found([next_one, late]))


def test_what_was_acknowledged_is_in_the_log() -> None:
    kept = commit("1.1", 10, assigned_at=0, begun_at=1, acknowledged_at=2)
    failed = commit("1.2", 20, assigned_at=0, begun_at=3)
    assert found([kept, failed], [("1.1", 10)]) == []
    (fault,) = found([kept, failed], [("1.2", 20)])
    assert "1.1" in fault
    assert "is not in the log" in fault


def test_an_acknowledged_commit_is_before_later_ones() -> None:
    early = commit("1.1", 10, assigned_at=0, begun_at=1, acknowledged_at=2)
    later = commit("1.2", 10, assigned_at=0, begun_at=3, acknowledged_at=4)
    assert found([early, later]) == []
    (fault,) = found([later, early])
    assert "is after 1.2" in fault


def test_a_commit_that_was_sent_again_counts_when_it_first_came() -> None:
    sent_twice = commit("1.1", 10, assigned_at=0, begun_at=1, acknowledged_at=9)
    later = commit("1.2", 20, assigned_at=0, begun_at=10, acknowledged_at=11)
    assert found([sent_twice, later], [("1.1", 10), ("1.1", 10), ("1.2", 20)]) == []


def test_a_new_owner_begins_where_the_last_one_ended() -> None:
    first = commit("1.1", 20, assigned_at=0, begun_at=1, acknowledged_at=2)
    second = commit("2.1", 15, assigned_at=3, begun_at=4, acknowledged_at=5)
    (fault,) = found([first, second])
    assert "position 15" in fault
    assert "follows 20" in fault


def three_in_turn() -> list[Commit]:
    """Commits of one member, each begun after the one before was acknowledged."""
    return [
        commit(f"1.{number}", 10 * number, assigned_at=0, begun_at=number, acknowledged_at=number + 0.5)
        for number in (1, 2, 3)
    ]


def test_compaction_may_remove_a_commit_that_another_follows() -> None:
    assert found(three_in_turn(), [("1.3", 30)], compacted_count=0) == []
    assert found(three_in_turn(), [("1.2", 20), ("1.3", 30)], compacted_count=1) == []


def test_compaction_does_not_remove_the_last_commit() -> None:
    (fault,) = found(three_in_turn(), [("1.1", 10), ("1.2", 20)], compacted_count=2)
    assert "1.3" in fault
    assert "is not in the log" in fault


def test_nothing_is_missing_behind_what_was_compacted() -> None:
    """The first commit is whole already, so the second cannot have been compacted."""
    (fault,) = found(three_in_turn(), [("1.1", 10), ("1.3", 30)], compacted_count=0)
    assert "1.2" in fault
    assert "is not in the log" in fault
