"""A failure prints the commands that play it again, and tests that await run in what they name."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.support import pytest_hooks
from tests.support.loop import VirtualTimeLoop
from tests.support.stories import in_real_time, told_by

pytest_plugins = ["pytester"]


def test_a_failure_prints_what_plays_it_again(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_first="def test_holds(): pass")
    pytester.makepyfile(
        test_second="""
        import pytest

        @pytest.mark.parametrize("seed", [3])
        def test_breaks(seed): assert seed == 4
        """
    )
    for name in [name for name in os.environ if pytest_hooks._decides(name)]:
        monkeypatch.delenv(name)  # what this run itself was given
    monkeypatch.setenv("CHAOS_SEED", "5")
    result = pytester.runpytest("-p", "tests.support.pytest_hooks", "--randomly-seed=7")
    result.assert_outcomes(passed=1, failed=1)
    command = "CHAOS_SEED=5 .venv/bin/python -m pytest --randomly-seed=7"
    result.stdout.fnmatch_lines(["*To play it again*", f"{command} 'test_second.py::test_breaks[[]3[]]'"])
    assert any(line.startswith(command) and line.endswith("test_second.py") for line in result.outlines)


async def test_a_test_that_awaits_runs_on_virtual_time(tmp_path: Path) -> None:
    assert isinstance(asyncio.get_running_loop(), VirtualTimeLoop)
    assert tmp_path.is_dir()


@in_real_time
async def test_a_test_may_ask_for_a_loop_of_asyncio(tmp_path: Path) -> None:
    assert not isinstance(asyncio.get_running_loop(), VirtualTimeLoop)
    assert tmp_path.is_dir()


def with_two(story: Callable[[int, int], Awaitable[None]], *, first: int) -> None:
    asyncio.run(asyncio.wait_for(story(first, first + 1), 60))


@pytest.mark.parametrize("third", [7])
@told_by(with_two, first=5, gives=2)
async def test_a_runner_gives_the_first_arguments(one: int, two: int, third: int) -> None:
    assert (one, two, third) == (5, 6, 7)
