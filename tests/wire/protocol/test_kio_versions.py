"""Which versions of kio do: the declared range is the one that is checked, and an old one is refused at once."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from odradek.broker.requests.table import CONTROLLER_HANDLERS, HANDLERS, TELEMETRY_HANDLERS
from odradek.foundation.errors import DependencyError
from odradek.wire.protocol.schema import KIO_VERSION_LIMIT, KIO_VERSION_MIN, check_kio, versions_of
from tests.support.broker_process import CHECKOUT


def test_the_range_that_is_checked_is_the_one_that_is_installed() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    (declared,) = (need for text in project["dependencies"] if (need := Requirement(text)).name == "kio")
    lowest, limit = (".".join(map(str, numbers)) for numbers in (KIO_VERSION_MIN, KIO_VERSION_LIMIT))
    assert declared.specifier == Requirement(f"kio>={lowest},<{limit}").specifier


@pytest.mark.parametrize("version", [(0, 6, 3), (0, 6, 5), (0, 6, 99), (0, 6, 4, "dev1")])
def test_versions_with_the_messages_of_kafka_4_1_do(version: tuple[int | str, ...]) -> None:
    check_kio(version)


@pytest.mark.parametrize("version", [(0, 5, 0), (0, 6, 2), (0, 7, 0), (0, 7), (1, 0, 0)])
def test_other_versions_are_refused_with_what_to_install(version: tuple[int | str, ...]) -> None:
    with pytest.raises(DependencyError, match=r"pip install 'kio>=0\.6\.3,<0\.7'"):
        check_kio(version)


def test_every_version_that_is_served_has_its_schema() -> None:
    for api_key, handler in (*HANDLERS.items(), *TELEMETRY_HANDLERS.items(), *CONTROLLER_HANDLERS.items()):
        served = range(handler.version_min, handler.version_max + 1)
        assert set(served) <= set(versions_of(api_key)), handler.module


@pytest.mark.integration
@pytest.mark.parametrize("command", [["start", "--listen", "127.0.0.1:0"], ["topics", "list"]])
def test_a_command_with_an_old_kio_ends_with_one_line(command: list[str], tmp_path: Path) -> None:
    old = tmp_path / "kio"
    old.mkdir()
    (old / "__init__.py").write_text("__version_tuple__ = (0, 6, 2)\n")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "odradek", *command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{CHECKOUT / 'broker'}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("odradek: kio 0.6.2 is installed")
    assert "Traceback" not in done.stderr
