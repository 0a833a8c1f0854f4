"""A broker process that the tests of this folder share; each uses topics and groups of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.operator.topics.world import BrokerWithAdmin


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerWithAdmin]:
    """A started broker with an admin port."""
    made = BrokerWithAdmin(tmp_path_factory.mktemp("broker"))
    made.start()
    yield made
    made.close()
