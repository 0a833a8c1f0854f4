"""A test that bounds the time its clients wait gets the processors before the tests of the suite beside it."""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import quiet
from tests.support.polling import SECONDS_MAX
from tests.support.quiet import WEIGHTS_BESIDE_QUIET_TESTS, WHOLE_WEIGHTS, take_turn


def play(item: pytest.Item, test: Callable[[], None]) -> None:
    """What pytest does with the hook around a test."""
    hook = quiet.pytest_runtest_protocol(item)
    next(hook)
    test()
    with pytest.raises(StopIteration, match="True"):
        hook.send(True)


@pytest.fixture
def checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    (tmp_path / ".cache").mkdir()
    monkeypatch.setattr(quiet, "CHECKOUT", tmp_path)
    return tmp_path


@pytest.fixture(params=["cpu.shares", "cpu.weight"])
def weight(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    weight = tmp_path / str(request.param)
    weight.write_text("8192")
    monkeypatch.setenv("ODRADEK_E2E_BESIDE", str(weight))
    return weight


def test_a_quiet_test_of_e2e_lowers_the_weight_of_what_runs_beside_it(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, checkout: Path, weight: Path
) -> None:
    monkeypatch.setattr(request.node, "path", checkout / "e2e" / "test_4_faults.py")
    play(request.node, lambda: None)
    assert weight.read_text() == "8192"
    request.node.add_marker(pytest.mark.quiet)
    play(request.node, lambda: None)
    assert weight.read_text() == str(WEIGHTS_BESIDE_QUIET_TESTS[weight.name])


def test_a_quiet_test_beside_e2e_has_the_whole_weight_as_long_as_it_runs(
    request: pytest.FixtureRequest, checkout: Path, weight: Path
) -> None:
    seen: list[str] = []
    request.node.add_marker(pytest.mark.quiet)
    play(request.node, lambda: seen.append(weight.read_text()))
    assert seen == [str(WHOLE_WEIGHTS[weight.name])]
    assert weight.read_text() == "8192"


def test_turns_are_taken_one_at_a_time_and_given_to_waiters(tmp_path: Path) -> None:
    taken: list[str] = []
    holds, is_over = threading.Event(), threading.Event()

    def wait_for_turn() -> None:
        with take_turn(tmp_path):
            taken.append("waited")

    def have_two_turns() -> None:
        with take_turn(tmp_path):
            taken.append("first")
            holds.set()
            is_over.wait(SECONDS_MAX)
        with take_turn(tmp_path):
            taken.append("again")

    owner = threading.Thread(target=have_two_turns)
    owner.start()
    assert holds.wait(SECONDS_MAX)
    waits = threading.Thread(target=wait_for_turn)
    waits.start()
    while not _is_next(tmp_path):
        pass
    assert taken == ["first"]
    is_over.set()
    owner.join(SECONDS_MAX)
    waits.join(SECONDS_MAX)
    assert taken == ["first", "waited", "again"]


def _is_next(folder: Path) -> bool:
    """Whether a thread waits for the following turn."""
    with (folder / "quiet-next").open("w") as following:
        try:
            fcntl.flock(following, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def test_without_a_name_of_its_weight_nothing_is_written(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ODRADEK_E2E_BESIDE", raising=False)
    monkeypatch.setattr(Path, "write_text", lambda path, text: pytest.fail(f"{path} was written: {text}"))
    monkeypatch.setattr(quiet, "take_turn", lambda folder: pytest.fail(f"a turn was taken in {folder}"))
    request.node.add_marker(pytest.mark.quiet)
    play(request.node, lambda: None)
