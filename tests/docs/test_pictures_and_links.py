"""Pictures and links of the pages: pictures belong to their sources, links lead somewhere, the index is complete."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
SOURCES = sorted(IMAGES.glob("*.dot"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_diagram_is_drawn_from_its_source(source: Path) -> None:
    checksum = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    drawn_from = source.with_suffix(".svg").read_text().splitlines()[0]
    assert f"{source.name} {checksum} " in drawn_from, "the source has changed: run `make diagrams`"


@pytest.mark.parametrize("picture", sorted(IMAGES.glob("*.svg")), ids=lambda path: path.name)
def test_a_picture_is_whole_and_on_a_page(picture: Path) -> None:
    assert ElementTree.fromstring(picture.read_text()).tag == "{http://www.w3.org/2000/svg}svg"
    assert any(f"images/{picture.name}" in page.read_text() for page in PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_link_leads_to_a_file_that_is_there(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if re.match(r"[a-z]+:|#", target):
            continue
        path = page.parent / target.partition("#")[0]
        assert path.exists(), f"{page.relative_to(ROOT)} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_link_into_a_page_leads_to_a_heading(page: Path) -> None:
    for name, anchor in re.findall(r"\]\((?!https?:)([^)\s#]*)#([^)\s]+)\)", page.read_text()):
        target = page.parent / name if name else page
        assert anchor in anchors_of(target.read_text()), f"{page.relative_to(ROOT)} links to {name}#{anchor}"


def anchors_of(page: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)", page, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_anchors_are_those_of_github() -> None:
    page = "# What it runs on\n## Kafka's `groups`, and more\n### A well-known one\n"
    assert anchors_of(page) == {"what-it-runs-on", "kafkas-groups-and-more", "a-well-known-one"}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_test_that_a_page_names_is_there(page: Path) -> None:
    for name in re.findall(r"`((?:tests|e2e|bench)/[\w/.-]+)`", page.read_text()):
        assert (ROOT / name).exists(), f"{page.relative_to(ROOT)} names {name}"


def test_the_index_of_pages_names_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "reference").glob("*.md")]
    for page in pages:
        path = page.relative_to(ROOT / "docs")
        assert path.name == "README.md" or f"]({path})" in index, f"docs/README.md does not name {path}"
