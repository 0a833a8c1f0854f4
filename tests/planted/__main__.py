"""Plants each bug of the table and looks which test finds it: `make planted`.

    python -m tests.planted [--suite quick|thorough|all] [--only WORDS] [--jobs 2]
    python -m tests.planted --sample 50 --seed 1 [--only WORDS]

`all` asks the quick suite, and the thorough one about what that misses. The table at the end has the test that finds a
bug, and the seconds that this test takes alone. The exit code is 1 when a bug is not found.

`--sample` changes that many functions of the product instead, one after the other, and runs the tests of their
packages. `--only` has words of their paths then.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Collection, Sequence
from typing import Final

from tests.planted import sampling
from tests.planted.bugs import Bug, chosen, table
from tests.planted.clone import Clone
from tests.planted.mutations import sample
from tests.planted.runs import SUITES, Outcome, run
from tests.planted.search import EVERYTHING, Found, Run, search

_FILES_ALONE_MAX: Final = 4


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__.partition("\n")[0])
    parser.add_argument("--suite", choices=[*SUITES, "all"], default="all")
    parser.add_argument("--only", default="", help="words of names of bugs, parted by commas")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--sample", type=int, default=0, help="how many functions are changed instead")
    parser.add_argument("--seed", type=int, default=1, help="which functions, and how")
    options = parser.parse_args()
    bugs = chosen(table(), options.only)
    suites = list(SUITES) if options.suite == "all" else [options.suite]
    began = time.monotonic()
    found: dict[str, tuple[str, Found]] = {}

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {text}", flush=True)

    if options.sample:
        words = [word for word in options.only.split(",") if word]
        suite = "quick" if options.suite == "all" else options.suite
        with Clone() as clone:
            mutations = sample(options.sample, options.seed, words)
            sampling.show(sampling.ask(clone, mutations, suite=suite, jobs=options.jobs, say=say))
        return 0
    with Clone() as clone:
        for suite in suites:
            left = [bug for bug in bugs if bug.name not in found]
            say(f"the {suite} suite, {len(left)} bugs")
            hits = search(left, _runner(clone, suite, options.jobs), say)
            found |= {name: (suite, hit) for name, hit in hits.items() if hit is not None}
            show(bugs, found)
    return int(len(found) < len(bugs))


def _runner(clone: Clone, suite: str, jobs: int) -> Run:
    def run_with(
        bugs: Sequence[Bug],
        tests: Sequence[str],
        *,
        failures_max: int = 0,
        seconds_max: float | None = None,
        deselected: Collection[str] = (),
    ) -> Outcome:
        clone.hold(bugs)
        return run(
            clone.folder,
            tests,
            suite=suite,
            # Workers take longer to start than a few files to run.
            jobs=jobs if tests == [EVERYTHING] or len(tests) > _FILES_ALONE_MAX else 0,
            failures_max=failures_max,
            seconds_max=seconds_max,
            deselected=deselected,
        )

    return run_with


def show(bugs: Sequence[Bug], found: dict[str, tuple[str, Found]]) -> None:
    """Print a line for each bug, and the counts."""
    width = max(len(bug.name) for bug in bugs) if bugs else 0
    print()
    for bug in bugs:
        suite, hit = found.get(bug.name, ("missed", Found("", 0.0)))
        print(f"{bug.name:<{width}}  {suite:<8}  {hit.seconds:5.1f} s  {hit.test}")
    print()
    for suite in SUITES:
        count = sum(by == suite for by, _ in found.values())
        print(f"found by the {suite} suite: {count}")
    print(f"missed: {len(bugs) - len(found)} of {len(bugs)}", flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # the clone is removed
    raise SystemExit(main())
