"""Which test finds each bug.

The tests that most likely find a bug are asked first, for each bug alone. All bugs that they miss are then planted
together, and the whole suite runs once. A suite that passes with all of them has found none. A test that fails there is
run alone with each bug. Clusters with many bugs wait until tests reach their limits, so that run has a bound. Bugs that
it leaves run with the whole suite one by one.

A test counts when it fails again with the bug alone, and passes without it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from tests.planted.bugs import Bug, likely_tests
from tests.planted.runs import Outcome

# So many of the most likely tests may fail for another reason than the bug.
_OTHER_FAILURES_MAX: Final = 5
# A bug that breaks much ends the run with all bugs, which is then repeated without it.
_TOGETHER_FAILURES_MAX: Final = 30
# A suite with bugs takes as long as one without, and a test that waits for what a bug prevents its limit.
_TOGETHER_SECONDS_MAX: Final = 900.0
_ALONE_SECONDS_MAX: Final = 1800.0
EVERYTHING: Final = "tests"


class Found(NamedTuple):
    """The test that found a bug, and what it takes alone."""

    test: str
    seconds: float


class Run(Protocol):
    """Runs tests of one suite while `bugs` are planted."""

    def __call__(
        self,
        bugs: Sequence[Bug],
        tests: Sequence[str],
        *,
        failures_max: int = 0,
        seconds_max: float | None = None,
        deselected: Collection[str] = (),
    ) -> Outcome: ...


Say = Callable[[str], None]


def search(bugs: Iterable[Bug], run: Run, say: Say) -> dict[str, Found | None]:
    """By the name of each bug the test that found it; None for those that no test finds."""
    found: dict[str, Found | None] = {}
    missed: list[Bug] = []
    # Looked up at once: the checkout may change during a long search, and the clone does not.
    for bug, likely in [(bug, likely_tests(bug.file)) for bug in bugs]:
        hit = _of_likely_tests(bug, likely, run)
        say(f"{bug.name}: {'not found by the most likely tests' if hit is None else hit.test}")
        found[bug.name] = hit
        if hit is None:
            missed.append(bug)
    return found | _of_everything(missed, run, say)


def _of_likely_tests(bug: Bug, likely: Iterable[list[str]], run: Run) -> Found | None:
    others: list[str] = []
    for files in likely:
        while len(others) < _OTHER_FAILURES_MAX:
            failed = run([bug], files, failures_max=1, deselected=others).failed
            if not failed:
                break
            for test in failed:
                hit = _confirmed(bug, test, run)
                if hit is not None:
                    return hit
            others += failed
    return None


def _of_everything(bugs: Sequence[Bug], run: Run, say: Say) -> dict[str, Found]:
    found: dict[str, Found] = {}
    others: list[str] = []
    left = list(bugs)
    while left:
        say(f"{len(left)} bugs together: {', '.join(bug.name for bug in left)}")
        outcome = run(
            left,
            [EVERYTHING],
            failures_max=_TOGETHER_FAILURES_MAX,
            seconds_max=_TOGETHER_SECONDS_MAX if len(left) > 1 else _ALONE_SECONDS_MAX,
            deselected=others,
        )
        failed, others_before, left_before = outcome.failed, len(others), len(left)
        while failed:
            test = failed[0]
            hits = {bug.name: hit for bug in left if (hit := _confirmed(bug, test, run)) is not None}
            for name, hit in hits.items():
                say(f"{name}: {hit.test}")
            if not hits:
                say(f"no single bug explains {test}")
                others.append(test)
            found |= hits
            left = [bug for bug in left if bug.name not in hits]
            # What the bugs that are found explain needs no more looks.
            failed = run(left, failed[1:]).failed if failed[1:] and left else []
        if not outcome.is_cut:
            return found
        if (len(others), len(left)) == (others_before, left_before):
            if len(left) == 1:
                say(f"{left[0].name}: the suite has not ended with it")
                return found
            for bug in left:
                found |= _of_everything([bug], run, say)
            return found
    return found


def _confirmed(bug: Bug, test: str, run: Run) -> Found | None:
    """What the test takes alone when it fails with the bug alone, and passes without."""
    with_bug = run([bug], [test])
    if not with_bug.failed:
        return None
    without = run([], [test])
    return None if without.failed else Found(test, with_bug.seconds)
