"""Tests on Kubernetes that bound the time clients wait get the processors before the tests that run beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.conftest import WEIGHTS_BESIDE_QUIET_TESTS, pytest_runtest_setup


@pytest.mark.parametrize("name", ["cpu.shares", "cpu.weight"])
def test_a_quiet_test_lowers_the_weight_of_what_runs_beside_it(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    weight = tmp_path / name
    weight.write_text("8192")
    monkeypatch.setenv("ODRADEK_E2E_BESIDE", str(weight))
    pytest_runtest_setup(request.node)
    assert weight.read_text() == "8192"
    request.node.add_marker(pytest.mark.quiet)
    pytest_runtest_setup(request.node)
    assert weight.read_text() == str(WEIGHTS_BESIDE_QUIET_TESTS[name])


def test_without_a_name_of_its_weight_nothing_is_lowered(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ODRADEK_E2E_BESIDE", raising=False)
    monkeypatch.setattr(Path, "write_text", lambda path, text: pytest.fail(f"{path} was written: {text}"))
    request.node.add_marker(pytest.mark.quiet)
    pytest_runtest_setup(request.node)
