"""Broker processes of one test each: these tests kill them, starve them and fill their disks."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker_process import Broker
from tests.support.local_process import running
from tests.support.secured_cluster import SecuredCluster

MakeBroker = Callable[..., Broker]


@pytest.fixture(scope="session")
def secured_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    """One cluster for all tests of it, since its start takes ten seconds."""
    with running(SecuredCluster(tmp_path_factory.mktemp("secured-cluster"))) as cluster:
        yield cluster


@pytest.fixture
def make_broker(tmp_path: Path) -> Iterator[MakeBroker]:
    """`make_broker(**settings)`, underscores for dots: a started broker that ends with the test."""
    made: list[Broker] = []

    def make(
        folder: Path | None = None, *, wrapper: tuple[str, ...] = (), start: bool = True, **settings: Any
    ) -> Broker:
        named = {key.replace("_", "."): str(value) for key, value in settings.items()}
        where = folder or tmp_path / f"broker-{len(made)}"
        broker = Broker(where, settings={"group.initial.rebalance.delay.ms": "0", **named}, wrapper=wrapper)
        made.append(broker)
        if start:
            broker.start()
        return broker

    yield make
    for broker in made:
        broker.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MB; only root can mount one."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a small file system needs root")
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"mounting is not allowed here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)
