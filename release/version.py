"""What is declared once and also stands elsewhere: the version, the repository's address, and how pages install.

The version is `__version__` in broker/odradek/foundation/version.py, so the broker says it and reads no metadata.
The address is `project.urls.Repository` in pyproject.toml; there may be none. The copies are literal, because an sdist,
a chart and a rendered manifest are read without the rest of the repository. `release.install_lines` has the commands.

    python -m release.version            copy all of them to all places
    python -m release.version 0.2.0      declare this version first
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from release import install_lines
from release.commands import ReleaseError

CHECKOUT = Path(__file__).resolve().parents[1]
DECLARED_IN = "broker/odradek/foundation/version.py"
_DECLARATION = re.compile(r'^(__version__ = ")(.*)(")$', re.MULTILINE)
_VERSION = r"\d+\.\d+\.\d+"
_WELL_FORMED = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
_IMAGE = r"(?<![\w/])(?:localhost/)?odradek/(?:broker|operator|pipeline):"  # not a registry's, whose tags are a test's
_RUNBOOKS = r"/blob/v(?=\d[\d.]*/docs/runbooks/)"
_RENDERED = (_RUNBOOKS, r"app\.kubernetes\.io/version: ", r"helm\.sh/chart: odradek(?:-operator)?-", _IMAGE)
_URLS = re.compile(r"^\[project\.urls\]\n(?:[^\[\n].*\n)*\n", re.MULTILINE)
_HOME = re.compile(r"^home: .*\n", re.MULTILINE)


class VersionError(ReleaseError):
    """A version is not written as ours are; the text says which and how."""


@dataclass(frozen=True, slots=True)
class Copies:
    """Files (a glob below the checkout) in which the version stands behind any of `prefixes` (regular expressions)."""

    files: str
    prefixes: tuple[str, ...]


COPIES = (
    Copies("operator/pyproject.toml", (r'^version = "', r'"odradek==')),
    Copies("pipeline/pyproject.toml", (r'^version = "', r'"odradek==')),
    Copies("helm/*/Chart.yaml", (r"^version: ", r"^appVersion: ", _IMAGE)),
    Copies("manifests/**/*.yaml", _RENDERED),
    Copies("tests/charts/golden/**/*.yaml", _RENDERED),
    Copies("manifests/examples/spark/submit", (_IMAGE,)),
    Copies("docs/kubernetes.md", (_IMAGE, r"odradek/\$name:")),
    Copies("README.md", (r"odradek/\$name:",)),
    Copies("compose*.yaml", (_IMAGE,)),
)
"""Rendered texts are among them so that a release needs no Helm; the tests render them again and compare."""


def declared(checkout: Path = CHECKOUT) -> str:
    """The product's version, as 0.1.0. Raises VersionError."""
    found = _DECLARATION.search((checkout / DECLARED_IN).read_text())
    if found is None:
        raise VersionError(f'{DECLARED_IN} declares no version: it needs a line __version__ = "0.1.0"')
    numbers_of(found[2])
    return found[2]


def numbers_of(version: str) -> tuple[int, ...]:
    """The three numbers of a version. Raises VersionError: charts and Python packages share no other form."""
    if _WELL_FORMED.fullmatch(version) is None:
        raise VersionError(f"{version!r} is not a version: give three numbers, as 0.2.0")
    return tuple(int(number) for number in version.split("."))


def repository(checkout: Path = CHECKOUT) -> str | None:
    """The repository's public address, or None when none is declared."""
    project = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]
    found: str | None = project.get("urls", {}).get("Repository")
    return found


def stale(checkout: Path = CHECKOUT) -> list[str]:
    """Files whose copies differ from what is declared, as paths below the checkout."""
    return [str(path.relative_to(checkout)) for path, text in _copied(checkout) if path.read_text() != text]


def write(checkout: Path = CHECKOUT, *, version: str | None = None) -> list[str]:
    """Declare `version` if one is given, and update every copy; the files that changed. Raises VersionError."""
    changed: list[str] = []
    if version is not None:
        numbers_of(version)
        path = checkout / DECLARED_IN
        before = path.read_text()
        after = _DECLARATION.sub(rf"\g<1>{version}\g<3>", before)
        if after != before:
            path.write_text(after)
            changed.append(DECLARED_IN)
    outdated = stale(checkout)
    for path, text in list(_copied(checkout)):
        if str(path.relative_to(checkout)) in outdated:
            path.write_text(text)
    return changed + outdated


def _copied(checkout: Path) -> Iterator[tuple[Path, str]]:
    """Every file with a copy, and what it should say."""
    version, address = declared(checkout), repository(checkout)
    is_published = install_lines.is_published(checkout)
    texts = {
        page: install_lines.with_installs(page.read_text(), is_published=is_published)
        for page in install_lines.pages(checkout)
    }
    for copies in COPIES:
        pattern = re.compile(f"({'|'.join(copies.prefixes)}){_VERSION}(?![\\w.])", re.MULTILINE)
        for path in sorted(checkout.glob(copies.files)):
            text = pattern.sub(rf"\g<1>{version}", texts.get(path) or path.read_text())
            if path.name == "pyproject.toml":
                text = _with_urls(text, address)
            elif path.name == "Chart.yaml":
                text = _with_home(text, address)
            texts[path] = text
    yield from texts.items()


def _with_urls(text: str, address: str | None) -> str:
    text = _URLS.sub("", text)
    if address is None:
        return text
    return text.replace("[project.scripts]", f'[project.urls]\nRepository = "{address}"\n\n[project.scripts]')


def _with_home(text: str, address: str | None) -> str:
    text = _HOME.sub("", text)
    return text if address is None else text.replace("\nkubeVersion:", f"\nhome: {address}\nkubeVersion:")


def main(arguments: list[str]) -> int:
    try:
        changed = write(version=arguments[0] if arguments else None)
    except VersionError as failure:
        print(f"release.version: {failure}", file=sys.stderr)
        return 2
    print("\n".join(changed) if changed else "every copy is up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
