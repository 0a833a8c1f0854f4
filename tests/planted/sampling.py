"""What the tests of a package say about a sample of mutations: survivors, and tests that never fail alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from tests.planted.bugs import folders_of
from tests.planted.clone import Clone
from tests.planted.mutations import Mutation
from tests.planted.runs import run
from tests.planted.search import Say


def ask(
    clone: Clone, mutations: Sequence[Mutation], *, suite: str, jobs: int, say: Say
) -> dict[str, frozenset[str]]:
    """By mutation the tests of its package that fail with it and not without it."""
    failing: dict[tuple[str, ...], list[str]] = {}
    answers: dict[str, frozenset[str]] = {}
    for mutation in mutations:
        folders = folders_of(mutation.file)
        if not folders:
            continue
        if tuple(folders) not in failing:
            clone.hold(())
            failing[tuple(folders)] = run(clone.folder, folders, suite=suite, jobs=jobs).failed
        clone.hold(())
        clone.replace(mutation.file, mutation.source)
        failed = run(clone.folder, folders, suite=suite, jobs=jobs, deselected=failing[tuple(folders)]).failed
        say(f"{len(failed):4} tests fail  {mutation}")
        answers[str(mutation)] = frozenset(failed)
    return answers


def survivors(answers: Mapping[str, frozenset[str]]) -> list[str]:
    """The mutations that no test finds."""
    return [mutation for mutation, failed in answers.items() if not failed]


def never_alone(answers: Mapping[str, frozenset[str]]) -> dict[str, list[list[str]]]:
    """By file of tests the groups of its tests that fail with the same mutations, and never as the only one.

    A group of several may be one question that is asked several times.
    """
    seen: dict[str, set[str]] = defaultdict(set)
    for mutation, failed in answers.items():
        for test in failed:
            seen[test].add(mutation)
    alone = {next(iter(failed)) for failed in answers.values() if len(failed) == 1}
    groups: dict[str, dict[frozenset[str], list[str]]] = defaultdict(lambda: defaultdict(list))
    for test, mutations in sorted(seen.items()):
        if test not in alone:
            groups[test.partition("::")[0]][frozenset(mutations)].append(test)
    return {file: list(by_mutations.values()) for file, by_mutations in groups.items()}


def show(answers: Mapping[str, frozenset[str]]) -> None:
    """Print survivors, and the tests that never fail alone."""
    left = survivors(answers)
    print(f"\n{len(left)} of {len(answers)} mutations survive:")
    for mutation in left:
        print(f"    {mutation}")
    print("\nTests that never fail alone; those of one line fail with the same mutations:")
    for file, groups in never_alone(answers).items():
        print(f"    {file}")
        for tests in groups:
            print(f"        {', '.join(test.partition('::')[2] for test in tests)}")
