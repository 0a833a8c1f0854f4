"""The page about Kubernetes does what it says, from the first install to the removal.

The README is played after these tests, by the fixture `kube`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.install import NAMESPACE, OPERATOR_NAMESPACE, WITHOUT_HELM, clear
from e2e.kube import Kube, until
from e2e.pages import play

PAGE = "docs/kubernetes.md"
pytestmark = pytest.mark.timeout(1200)


@pytest.fixture
def empty(kubernetes: None) -> Iterator[Kube]:
    """A Kubernetes without a release and without the page's namespace, as readers have it; and again afterwards."""
    kube = Kube(NAMESPACE)
    clear(kube)
    yield kube
    clear(kube)


def test_the_page_with_helm(empty: Kube, tmp_path: Path) -> None:
    play(PAGE, tmp_path)
    # What stops takes its time; the page ends with the removal.
    for kube, kind, selector in (
        (empty, "pods", "odradek.io/cluster=demo"),
        (Kube(OPERATOR_NAMESPACE), "leases", ""),
    ):
        until(
            lambda kube=kube, kind=kind, selector=selector: kube.items(kind, selector),  # type: ignore[misc]
            lambda found: not found,
            seconds_max=120,
            what=f"no {kind} are left",
        )


@pytest.mark.thorough
def test_the_page_without_helm(empty: Kube, tmp_path: Path) -> None:
    play(PAGE, tmp_path, "without-helm")
    assert (Kube(WITHOUT_HELM).get("cluster", "dev") or {})["status"]["brokers"]["ready"] == 1
