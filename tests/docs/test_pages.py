"""Code blocks of pages do what the pages say. docs/testing.md explains how a block is marked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.page_folder import REPOSITORY
from tests.support.page_run import PageRun
from tests.support.page_stamps import run_if_changed
from tests.support.pages import blocks_of

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.thorough]

PAGES = [
    "README.md",
    "broker/README.md",
    *sorted(str(page.relative_to(REPOSITORY)) for page in REPOSITORY.glob("docs/*.md")),
]


@pytest.mark.parametrize("page", PAGES)
def test_a_pages_blocks_do_what_it_says(page: str, tmp_path: Path) -> None:
    blocks = blocks_of(REPOSITORY / page, page=page)
    if all(block.is_left_out for block in blocks):
        return
    with run_if_changed(page), PageRun(tmp_path, blocks) as run:
        run.play()
        print("\n".join(run.notes))
