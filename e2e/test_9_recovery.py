"""The page about recovery: what was lost on purpose is back, with every record, also in another namespace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.conftest import READY_SECONDS_MAX
from e2e.install import NAMESPACE, clear
from e2e.kube import Kube
from e2e.pages import play

ELSEWHERE = "elsewhere"
pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1800)]


@pytest.fixture
def installed(kubernetes: None, tmp_path: Path) -> Iterator[Kube]:
    """A new installation by the README's blocks, and nothing of it afterwards."""
    kube = Kube(NAMESPACE)
    clear(kube)
    play("README.md", tmp_path / "readme")
    kube.ready("topic", "payments", READY_SECONDS_MAX)
    yield kube
    Kube(ELSEWHERE).run("delete", "clusters.odradek.io", "--all", "--ignore-not-found")
    clear(kube)
    kube.delete("namespace", ELSEWHERE)


def test_the_page_about_recovery(installed: Kube, tmp_path: Path) -> None:
    play("docs/recovery.md", tmp_path / "page")
    assert installed.get("namespace", NAMESPACE) is None
    cluster = Kube(ELSEWHERE).ready("cluster", "demo", READY_SECONDS_MAX)
    assert cluster["status"]["brokers"]["ready"] == 3
