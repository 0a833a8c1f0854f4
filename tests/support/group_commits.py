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

from collections.abc import Iterator, Mapping, Sequence
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


Logged = Sequence[tuple[str, int]]  # names and positions of one partition's commits, in the log's order


def faults(commits: Mapping[str, Commit], logged: Mapping[int, Logged]) -> list[str]:
    """Everything in the log, by partition, that no correct broker can have written of `commits`."""
    found = list(_missing(commits, logged))
    for partition, entries in logged.items():
        # A client may send a commit again that it has no answer of: what counts is when it first came.
        first: dict[str, int] = {}
        for name, position in entries:
            first.setdefault(name, position)
        made = [(commits[name], position) for name, position in first.items()]
        of_owners = [(commit, position) for commit, position in made if partition not in commit.disowned]
        of_this = (*_out_of_order(made), *_second_owners(of_owners, partition), *_gone_back(of_owners))
        found += [f"partition {partition}: {fault}" for fault in of_this]
    return found


def _missing(commits: Mapping[str, Commit], logged: Mapping[int, Logged]) -> Iterator[str]:
    there = {partition: set(entries) for partition, entries in logged.items()}
    for commit in commits.values():
        for partition, position in commit.positions.items():
            if commit.acknowledged_at < inf and (commit.name, position) not in there.get(partition, ()):
                yield f"partition {partition}: {commit} of position {position} is not in the log"


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
