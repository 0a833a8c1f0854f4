"""Problems of partitions as a cell of a table, the same in `status`, `topics list` and `topics describe`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from odradek.cli.shared.output import Styled, bad, warning
from odradek.client.admin.partition_states import Problem

_BAD_PROBLEMS = frozenset({Problem.OFFLINE, Problem.LEADERLESS, Problem.UNDER_MIN_ISR})


def problem_words(problems: Sequence[str] | Mapping[Problem, int]) -> Styled | str | None:
    """Problems as one cell: `offline, under-replicated`; with numbers `2 offline, 3 under-replicated`."""
    if not problems:
        return None
    names = [one.replace("_", "-") for one in problems]
    if isinstance(problems, Mapping):
        names = [f"{number} {name}" for name, number in zip(names, problems.values(), strict=True)]
    words = ", ".join(names)
    if _BAD_PROBLEMS.intersection(problems):
        return bad(words)
    return words if set(problems) == {Problem.NOT_PREFERRED} else warning(words)
