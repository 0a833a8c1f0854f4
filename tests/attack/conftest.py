"""One broker for all attacks: what an earlier one left behind must not help a later one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.attack.arena import Arena


@pytest.fixture(scope="session")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    made = Arena(tmp_path_factory.mktemp("arena"))
    made.start()
    try:
        yield made
        made.stop()
    finally:
        made.broker.close()
