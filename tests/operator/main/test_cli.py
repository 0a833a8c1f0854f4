"""The operator's commands where they cannot do what is asked: one line that says what to do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from odradek_operator.foundation.settings import OperatorSettings
from odradek_operator.main import commands
from odradek_operator.main.cli import main


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("kopf", ["run"]),
        ("kopf", ["strip-finalizers"]),
        ("kubernetes", ["check-upgrade"]),
        ("yaml", ["export", "--cluster", "demo"]),
    ],
)
def test_without_the_operators_dependencies_it_says_how_to_install_them(
    monkeypatch: pytest.MonkeyPatch, module: str, arguments: list[str]
) -> None:
    for name in list(sys.modules):
        if name.startswith("odradek_operator.main.") and not name.endswith(".cli"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1
    assert result.output.startswith(f"Error: {module} is not installed")
    assert "pip install odradek-operator" in result.output


@pytest.mark.parametrize(
    "content",
    [
        None,
        "garbage",
        "a: [",
        "{}",
        "current-context: a",
        "current-context: a\ncontexts: []\nclusters: []\nusers: []",
        "current-context: a\ncontexts: [{name: a, context: {cluster: x, user: y}}]\nclusters: []\nusers: []",
    ],
)
def test_a_kubeconfig_that_is_none_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv("KUBECONFIG", str(path))
    result = CliRunner().invoke(main, ["strip-finalizers"])
    assert result.exit_code == 1, result.exception
    assert "KUBECONFIG" in result.output
    assert len(result.output.splitlines()) == 1


def test_the_operators_port_may_be_at_an_address_of_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[OperatorSettings] = []

    def run_operator(settings: OperatorSettings) -> int:
        given.append(settings)
        return 0

    monkeypatch.setattr(commands, "run_operator", run_operator)
    assert CliRunner().invoke(main, ["run", "--http", "[::1]:8081"]).exit_code == 0
    (settings,) = given
    assert (settings.http_host, settings.http_port) == ("::1", 8081)
