"""The sdists and wheels hold what they should, say what they should, and work where they are installed."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Callable
from email import message_from_string
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from release import build, contents, tryout, version
from release.__main__ import check
from release.distributions import DISTRIBUTIONS, Distribution
from tests.release.conftest import build_tool
from tests.support.broker_process import CHECKOUT

pytestmark = pytest.mark.integration
INSTALLED = Path(sysconfig.get_path("purelib"))
RELEASED = version.declared()
_BUILD_WHEEL = "import hatchling.build, sys; print(hatchling.build.build_wheel(sys.argv[1]))"


def named(built: list[Path], start: str, suffix: str) -> Path:
    (found,) = (path for path in built if path.name.startswith(f"{start}-") and path.name.endswith(suffix))
    return found


def metadata(wheel: Path) -> dict[str, list[str]]:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        about = message_from_string(archive.read(name).decode())
    return {field: about.get_all(field) or [] for field in about}


def test_three_distributions_hold_what_they_should_and_nothing_else(built: list[Path], copy: Path) -> None:
    assert len(built) == 6
    assert check(built, copy) == []


def test_files_that_are_not_built_alike_twice_are_named(built: list[Path], tmp_path: Path) -> None:
    """`test_command` makes a release, which really builds twice."""
    again = [Path(shutil.copy2(path, tmp_path)) for path in built]
    assert build.differences(built, again) == []
    again[0].write_bytes(b"other")
    assert build.differences(built, again) == [f"{again[0].name} is not built alike twice from one commit"]


@pytest.mark.thorough
def test_odradek_alone_is_what_its_wheel_installs(built: list[Path], tmp_path: Path) -> None:
    made = tryout.Environment(tmp_path / "venv", [named(built, "odradek", ".whl")], dependencies=INSTALLED)
    assert made.packages() == {"odradek"}
    (made.empty / "odradek").mkdir()
    tryout.broker(made)
    assert made.run("odradek", "--version") == f"odradek {RELEASED}\n"


@pytest.mark.thorough
def test_operator_and_pipeline_are_commands_of_their_own(built: list[Path], tmp_path: Path) -> None:
    wheels = [path for path in built if path.suffix == ".whl"]
    made = tryout.Environment(tmp_path / "venv", wheels, dependencies=INSTALLED)
    assert "strip-finalizers" in made.run("odradek-operator", "--help")
    assert "executor" in made.run("odradek-pipeline", "--help")


def _with(change: Callable[[zipfile.ZipFile, zipfile.ZipFile], None], wheel: Path, folder: Path) -> Path:
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(folder / wheel.name, "w") as target:
        change(source, target)
    return folder / wheel.name


def test_what_does_not_belong_in_a_wheel_or_is_missing_is_named(
    built: list[Path], copy: Path, tmp_path: Path
) -> None:
    def change(source: zipfile.ZipFile, target: zipfile.ZipFile) -> None:
        for name in source.namelist():
            if name != "odradek/py.typed":
                text = source.read(name).decode()
                if name.endswith("METADATA"):
                    text = text.replace("## A broker\n", "[more](docs/more.md)\n").replace(
                        "Apache-2.0", "MIT"
                    )
                target.writestr(name, text.replace("pytest_plugin", "another"))
        target.writestr("odradek_operator/__init__.py", "")
        target.writestr("odradek/.env", "")

    changed = _with(change, named(built, "odradek", ".whl"), tmp_path)
    said = "\n".join(contents.wheel(changed, copy, DISTRIBUTIONS[0], RELEASED))
    for expected in (
        "holds odradek_operator/__init__.py, which nothing asks for",
        "holds odradek/.env, which nothing asks for",
        "lacks odradek/py.typed",
        "License-Expression is 'MIT', not 'Apache-2.0'",
        "links to docs/more.md, which leads nowhere",
        "not odradek.testing.pytest_plugin",
    ):
        assert expected in said


def test_an_sdist_with_a_link_or_without_its_readme_is_named(
    built: list[Path], copy: Path, tmp_path: Path
) -> None:
    sdist = named(built, "odradek", ".tar.gz")
    with tarfile.open(sdist) as source, tarfile.open(tmp_path / sdist.name, "w:gz") as target:
        for member in source.getmembers():
            if not member.name.endswith("broker/README.md"):
                target.addfile(member, source.extractfile(member))
        link = tarfile.TarInfo(f"odradek-{RELEASED}/secrets")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        target.addfile(link)
    said = "\n".join(contents.sdist(tmp_path / sdist.name, copy, DISTRIBUTIONS[0], RELEASED))
    assert "which is not a plain file" in said
    assert f"lacks odradek-{RELEASED}/broker/README.md" in said


@pytest.mark.thorough
def test_a_repository_address_stands_on_every_page(own_copy: Path, tmp_path: Path) -> None:
    project = own_copy / "pyproject.toml"
    address = "https://code.example/odradek"
    text = project.read_text().replace(
        "[project.scripts]", f'[project.urls]\nRepository = "{address}"\n\n[project.scripts]'
    )
    project.write_text(text)
    assert version.stale(own_copy) != []
    version.write(own_copy)
    assert version.stale(own_copy) == []
    for path in build.packages(own_copy, tmp_path / "dist", isolated=False):
        if path.suffix == ".whl":
            assert metadata(path)["Project-URL"] == [f"Repository, {address}"]
    for chart in own_copy.glob("helm/*/Chart.yaml"):
        assert f"\nhome: {address}\n" in chart.read_text()


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=lambda distribution: distribution.name)
def test_the_pages_and_licences_are_right_in_the_checkout(distribution: Distribution) -> None:
    licence = CHECKOUT / distribution.folder / "LICENSE"
    assert licence.read_text() == (CHECKOUT / "LICENSE").read_text()
    page = "broker/README.md" if distribution.folder == "." else f"{distribution.folder}/README.md"
    assert contents.relative_links((CHECKOUT / page).read_text()) == []


@pytest.mark.parametrize(
    "page", sorted((CHECKOUT / "helm").glob("*/README.md")), ids=lambda page: page.parent.name
)
def test_a_charts_page_has_no_link_into_the_repository(page: Path) -> None:
    assert contents.relative_links(page.read_text()) == []


def test_links_that_lead_nowhere_are_found() -> None:
    page = "[a](docs/a.md) [b](https://b.example) [c](#c) ![d](d.svg)\n[e]: ../e\n[f]: https://f.example\n"
    assert contents.relative_links(page) == ["docs/a.md", "d.svg", "../e"]


def test_the_tests_have_what_operator_and_pipeline_need(built: list[Path]) -> None:
    """A clone has one editable install, which brings all three packages and what each needs."""
    here = metadata(named(built, "odradek", ".whl"))["Requires-Dist"]
    provided = {Requirement(need).name.lower() for need in here if "demo" not in need}
    for name in ("odradek_operator", "odradek_pipeline"):
        for need in map(Requirement, metadata(named(built, name, ".whl"))["Requires-Dist"]):
            if need.name != "odradek":
                assert need.name.lower() in provided
                assert need.specifier.contains(importlib.metadata.version(need.name)), need


def test_a_script_beside_a_clone_imports_what_the_clone_installed(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`git clone …/odradek`, `pip install -e ./odradek`, and a script that stands beside the folder `odradek/`."""
    assert copy.name == "odradek"
    monkeypatch.chdir(copy)
    wheel = build_tool().build_editable(str(tmp_path))
    environment = tmp_path / "venv"
    venv.create(environment)
    (site,) = environment.glob("lib/python*/site-packages")
    with zipfile.ZipFile(tmp_path / wheel) as archive:
        archive.extractall(site)
    script = copy.parent / "script.py"
    script.write_text(
        "import odradek, odradek_operator, odradek_pipeline\n"
        "print(odradek.__version__, odradek.__file__, odradek_pipeline.__file__)\n"
    )
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for arguments in ([str(script)], ["-c", script.read_text()]):
        done = subprocess.run(
            [str(environment / "bin" / "python"), *arguments],
            cwd=copy.parent,
            env=clean,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == [
            RELEASED,
            str(copy / "broker" / "odradek" / "__init__.py"),
            str(copy / "pipeline" / "odradek_pipeline" / "__init__.py"),
        ]


def test_a_checkouts_distributions_take_odradek_from_it(copy: Path, tmp_path: Path) -> None:
    """`pip install ./pipeline` in an empty environment finds the `odradek` beside it. No package index has it."""
    build_tool()
    for distribution in DISTRIBUTIONS[1:]:
        folder = copy / distribution.folder
        done = subprocess.run(
            [sys.executable, "-c", _BUILD_WHEEL, str(tmp_path)],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
        needs = metadata(tmp_path / done.stdout.split()[-1])["Requires-Dist"]
        assert f"odradek@ {copy.as_uri()}" in [need.replace(" @", "@") for need in needs], needs


def test_a_released_distribution_takes_odradek_of_its_version(built: list[Path]) -> None:
    for name in ("odradek_operator", "odradek_pipeline"):
        assert f"odradek=={RELEASED}" in metadata(named(built, name, ".whl"))["Requires-Dist"]


def test_the_two_makers_of_requirements_are_alike() -> None:
    texts = {
        (CHECKOUT / folder / f"{folder}_requirements.py").read_text() for folder in ("operator", "pipeline")
    }
    assert len(texts) == 1
