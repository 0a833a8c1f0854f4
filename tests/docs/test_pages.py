"""Code blocks of pages do what the pages say. docs/testing.md explains how a block is marked."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.support.alone_environment import make_environment
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
# A reader of these has installed one distribution, and nothing that it does not ask for.
ALONE: Final = {
    **dict.fromkeys(("docs/audit.md", "docs/data-source.md", "docs/pipeline.md"), "odradek-pipeline"),
    **dict.fromkeys(
        ("docs/mirroring.md", "docs/python-client.md", "docs/quotas.md", "docs/running-a-broker.md"),
        "odradek",
    ),
    "docs/console.md": "odradek",
    "docs/queues.md": "odradek",
    "docs/security.md": "odradek",
    "docs/use-cases.md": "odradek",
}


@pytest.fixture(scope="session")
def environment_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str | None], Path]:
    """The virtual environment with a distribution alone; with None, the tests' own."""

    @functools.cache
    def environment(distribution: str | None) -> Path:
        if distribution is None:
            return Path(sys.prefix)
        pytest.importorskip("build", reason="`make test-all` installs it")
        return make_environment(tmp_path_factory.mktemp("environment"), distribution)

    return environment


@pytest.mark.parametrize("page", PAGES)
def test_a_pages_blocks_do_what_it_says(
    page: str, tmp_path: Path, environment_of: Callable[[str | None], Path]
) -> None:
    blocks = blocks_of(REPOSITORY / page, page=page)
    if all(block.is_left_out for block in blocks):
        return
    with run_if_changed(page), PageRun(tmp_path, blocks, environment=environment_of(ALONE.get(page))) as run:
        run.play()
        print("\n".join(run.notes))
