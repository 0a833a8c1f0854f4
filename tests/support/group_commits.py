"""What the log of committed offsets says of a partition's owners, compared with the members' reports.

Members are processes: their reports arrive late, and a delayed one learns late, or never, that it was fenced. So with
any correct broker, two members may both believe for a while that they own a partition. But a commit is accepted from an
owner alone, and it has a name in the log. So nothing is claimed of what members believe. Of one partition's commits,
these claims are checked:

- A member that was assigned the partition before another member began a commit does not commit after that one, unless
  it is assigned again. Otherwise there were two owners, or a commit was accepted too late.
- What was acknowledged is there, and before all that began later.
- Positions never go back: a new owner begins where the last owner's commits end.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf


@dataclass(slots=True, eq=False)
class Commit:
    """One commit as its member reported it; times in seconds of one clock.

    `positions` are by partition; `assigned_at` says since when the member held each. `acknowledged_at` is infinite for
    a commit that failed or whose end is unknown: the log may have it or not. `disowned` are partitions that the member
    itself had reported not to own (`History`): of them it proves nothing.
    """

    name: str
    member: int
    begun_at: float
    positions: Mapping[int, int]
    assigned_at: Mapping[int, float] = field(default_factory=dict)
    acknowledged_at: float = inf
    disowned: set[int] = field(default_factory=set)

    def __str__(self) -> str:
        acknowledged = "never" if self.acknowledged_at == inf else f"{self.acknowledged_at:.3f}"
        return f"{self.name} (begun {self.begun_at:.3f}, acknowledged {acknowledged})"


@dataclass(frozen=True, slots=True)
class LoggedCommits:
    """One partition's `commits` that the log has: their names and positions, in the log's order.

    Compaction keeps the last commit at least. The first `compacted_count` are from the part of the log that has gaps.
    """

    commits: Sequence[tuple[str, int]]
    is_compacted: bool = False
    compacted_count: int = 0

    def only(self, names: Container[str]) -> LoggedCommits:
        """The commits that bear one of `names`."""
        kept = [entry for entry in self.commits if entry[0] in names]
        count = sum(1 for entry in self.commits[: self.compacted_count] if entry[0] in names)
        return LoggedCommits(kept, is_compacted=self.is_compacted, compacted_count=count)


def faults(commits: Mapping[str, Commit], logged: Mapping[int, LoggedCommits]) -> list[str]:
    """Everything in the log, by partition, that no correct broker can have written of `commits`."""
    found = list(_missing(commits, logged))
    for partition, entries in logged.items():
        # A client may send a commit again that it has no answer of: what counts is when it first came.
        first: dict[str, int] = {}
        for name, position in entries.commits:
            first.setdefault(name, position)
        made = [(commits[name], position) for name, position in first.items()]
        of_owners = [(commit, position) for commit, position in made if partition not in commit.disowned]
        of_this = (*_out_of_order(made), *_second_owners(of_owners, partition), *_gone_back(of_owners))
        found += [f"partition {partition}: {fault}" for fault in of_this]
    return found


def _missing(commits: Mapping[str, Commit], logged: Mapping[int, LoggedCommits]) -> Iterator[str]:
    there = {partition: set(entries.commits) for partition, entries in logged.items()}
    for commit in commits.values():
        for partition, position in commit.positions.items():
            if commit.acknowledged_at == inf or (commit.name, position) in there.get(partition, ()):
                continue
            if partition in logged and _is_superseded(commit, commits, logged[partition]):
                continue
            yield f"partition {partition}: {commit} of position {position} is not in the log"


def _is_superseded(commit: Commit, commits: Mapping[str, Commit], logged: LoggedCommits) -> bool:
    """Whether compaction can have removed it: some commit may follow it, and none of the whole part is before it."""
    if not logged.is_compacted:
        return False
    whole = (commits[name] for name, _ in logged.commits[logged.compacted_count :])
    if any(one.acknowledged_at < commit.begun_at for one in whole):
        return False
    return any(commits[name].acknowledged_at >= commit.begun_at for name, _ in logged.commits)


def _out_of_order(made: Sequence[tuple[Commit, int]]) -> Iterator[str]:
    newest: Commit | None = None
    for commit, _ in made:
        if newest is not None and commit.acknowledged_at < newest.begun_at:
            yield f"{commit} is after {newest}"
        if newest is None or commit.begun_at > newest.begun_at:
            newest = commit


def _second_owners(made: Sequence[tuple[Commit, int]], partition: int) -> Iterator[str]:
    newest: dict[int, Commit] = {}  # of each member
    for commit, _ in made:
        assigned_at = commit.assigned_at.get(partition, inf)
        for other in newest.values():
            if other.member != commit.member and other.begun_at > assigned_at:
                yield f"assigned since {assigned_at:.3f}, {commit} is after another member's {other}"
        known = newest.get(commit.member)
        if known is None or commit.begun_at > known.begun_at:
            newest[commit.member] = commit


def _gone_back(made: Sequence[tuple[Commit, int]]) -> Iterator[str]:
    for (before, position_before), (after, position) in pairwise(made):
        if position < position_before:
            yield f"position {position} of {after} follows {position_before} of {before}"
