"""What would be uploaded is what was meant: the files in each sdist and wheel, and what their metadata say.

The files are compared with the checkout's own list, both ways: nothing is missing, and nothing else comes along. Each
check returns sentences, one for each thing that is wrong; an empty list is a pass.
"""

from __future__ import annotations

import configparser
import email
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Sequence
from email.message import Message
from pathlib import Path, PurePosixPath

from release.commands import git
from release.distributions import Distribution
from release.platforms import PYTHON_MINIMUM, classifiers

_IN_EVERY_SDIST = ("pyproject.toml", "LICENSE", ".gitignore", "PKG-INFO")
_IN_EVERY_WHEEL = ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
# Keys that are known and not used are tables beside the code. The console's pages are the other kinds.
_KINDS = (".py", ".typed", ".tsv", ".css", ".html", ".js", ".svg")
"""The kinds of files in packages. A file of another kind is a reason to look, and then to be added here."""
# [text](target) and [name]: target, where the target is no address and no part of the same page.
_LINK = re.compile(
    r"\]\(\s*(?!https?://|mailto:|#)([^)\s]+)\s*\)|^\[[^\]]+\]:\s+(?!https?://|mailto:|#)(\S+)", re.MULTILINE
)


def relative_links(page: str) -> list[str]:
    """Targets of Markdown links that lead nowhere when the page is read outside the repository."""
    return [first or second for first, second in _LINK.findall(page)]


def package_files(checkout: Path, distribution: Distribution) -> set[str]:
    """The tracked files of its packages, as paths that begin with an import name."""
    folders = [distribution.package, *([distribution.beside] if distribution.beside else [])]
    listed = git(checkout, "ls-files", "--", *folders)
    base = PurePosixPath(distribution.package).parent
    return {str(PurePosixPath(line).relative_to(base)) for line in listed.splitlines()}


def odd_files(checkout: Path, distribution: Distribution) -> list[str]:
    """Tracked files of the package that are of no kind a package of ours has."""
    return [
        f"{distribution.package} holds {file}: a kind of file that no package of ours has; allow it in {__name__}"
        for file in sorted(package_files(checkout, distribution))
        if not file.endswith(_KINDS)
    ]


def wheel(path: Path, checkout: Path, distribution: Distribution, version: str) -> list[str]:
    """The problems of a wheel."""
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        information = f"{distribution.file_name}-{version}.dist-info"
        about = archive.read(f"{information}/METADATA").decode()
        entries = archive.read(f"{information}/entry_points.txt").decode()
    expected = package_files(checkout, distribution)
    expected |= {f"{information}/{name}" for name in _IN_EVERY_WHEEL}
    return [
        *_differences(path.name, names, expected),
        *_metadata(path.name, email.message_from_string(about), distribution, version),
        *_entry_points(path.name, entries, distribution),
    ]


def sdist(path: Path, checkout: Path, distribution: Distribution, version: str) -> list[str]:
    """The problems of an sdist."""
    root = f"{distribution.file_name}-{version}"
    with tarfile.open(path) as archive:
        members = archive.getmembers()
        about = archive.extractfile(f"{root}/PKG-INFO")
        assert about is not None, "PKG-INFO is a file in every sdist"
        text = about.read().decode()
    odd = [
        f"{path.name} holds {member.name}, which is not a plain file"
        for member in members
        if not member.isfile()
    ]
    # The first distribution's pyproject.toml is at the checkout's root; the others have their package beside it.
    folder = PurePosixPath(distribution.package).relative_to(distribution.folder).parent
    expected = {str(folder / name) for name in package_files(checkout, distribution)}
    expected |= {*_IN_EVERY_SDIST, *distribution.sdist_extras}
    return [
        *odd,
        *_differences(
            path.name, {member.name for member in members}, {f"{root}/{name}" for name in expected}
        ),
        *_metadata(path.name, email.message_from_string(text), distribution, version),
    ]


def checked_by_tools(paths: Sequence[Path]) -> list[str]:
    """The findings of `twine check --strict` and `check-wheel-contents`."""
    files = [str(path) for path in paths]
    wheels = [name for name in files if name.endswith(".whl")]
    # W009 is about a second package in a wheel; `wheel` compares all that a wheel holds.
    commands = (["twine", "check", "--strict", *files], ["check_wheel_contents", "--ignore", "W009", *wheels])
    return [
        f"{command[0]} refuses: {said}"
        for command in commands
        if (said := _said_on_failure([sys.executable, "-m", *command])) is not None
    ]


def _differences(name: str, found: set[str], expected: set[str]) -> Iterable[str]:
    yield from (f"{name} holds {file}, which nothing asks for" for file in sorted(found - expected))
    yield from (f"{name} lacks {file}" for file in sorted(expected - found))


def _metadata(name: str, about: Message, distribution: Distribution, version: str) -> Iterable[str]:
    wanted = {
        "Name": distribution.name,
        "Version": version,
        "License-Expression": "Apache-2.0",
        "License-File": "LICENSE",
        "Requires-Python": f">={PYTHON_MINIMUM}",
        "Description-Content-Type": "text/markdown",
    }
    for field, value in wanted.items():
        if about[field] != value:
            yield f"{name}: {field} is {about[field]!r}, not {value!r}"
    for field in ("Summary", "Author", "Keywords"):
        if not about[field]:
            yield f"{name} has no {field}"
    for classifier in sorted(classifiers() - set(about.get_all("Classifier") or [])):
        yield f"{name} has no classifier {classifier}"
    page = about.get_payload()
    assert isinstance(page, str), "metadata are one text"
    if not page.strip():
        yield f"{name} has no description for its page"
    for link in relative_links(page):
        yield f"{name}: its page links to {link}, which leads nowhere outside the repository"
    yield from _needs(name, about.get_all("Requires-Dist") or [], distribution, version)


def _needs(name: str, needs: Sequence[str], distribution: Distribution, version: str) -> Iterable[str]:
    always = [need for need in needs if "extra ==" not in need]
    ours = [need for need in always if need.startswith("odradek")]
    wanted = [] if distribution.name == "odradek" else [f"odradek=={version}"]
    if ours != wanted:
        yield f"{name} needs {ours or 'no distribution of ours'}, not {wanted or 'none'}"


def _entry_points(name: str, text: str, distribution: Distribution) -> Iterable[str]:
    found = configparser.ConfigParser()
    found.read_string(text)
    scripts = dict(found["console_scripts"]) if found.has_section("console_scripts") else {}
    if scripts != {distribution.name: distribution.command}:
        yield f"{name} installs the commands {scripts}, not {distribution.name}"
    plugins = dict(found["pytest11"]) if found.has_section("pytest11") else {}
    if list(plugins.values()) != ([distribution.plugin] if distribution.plugin else []):
        yield f"{name} registers the pytest plugins {plugins}, not {distribution.plugin}"


def _said_on_failure(command: Sequence[str]) -> str | None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else (done.stdout + done.stderr).strip()
