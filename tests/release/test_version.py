"""The version and the repository's address are declared once; every copy follows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from release import version


def test_every_copy_in_the_checkout_is_up_to_date() -> None:
    assert version.stale() == [], "python -m release.version"


@pytest.mark.thorough
def test_a_new_version_stands_everywhere_after_one_command(own_copy: Path) -> None:
    before = version.declared(own_copy)
    changed = version.write(own_copy, version="98.7.6")
    assert version.declared(own_copy) == "98.7.6"
    assert version.stale(own_copy) == []
    for name in (
        "helm/odradek/Chart.yaml",
        "operator/pyproject.toml",
        "pipeline/pyproject.toml",
        "docs/kubernetes.md",
    ):
        assert name in changed
    left = re.compile(rf"(?:odradek[\w/$-]*[:=-]=?|[vV]ersion: ){re.escape(before)}")
    for path in (
        *own_copy.glob("helm/**/*"),
        *own_copy.glob("manifests/**/*"),
        *own_copy.glob("*/pyproject.toml"),
    ):
        if path.is_file():
            assert left.search(path.read_text()) is None, path


@pytest.mark.thorough
def test_a_version_has_three_numbers(own_copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in ("1", "1.2", "v1.2.3", "1.2.3rc1", "01.2.3", "1.2.3.4", ""):
        assert version.main([wrong]) == 2, wrong
        assert "give three numbers, as 0.2.0" in capsys.readouterr().err, wrong
    assert version.declared(own_copy) == version.declared()
