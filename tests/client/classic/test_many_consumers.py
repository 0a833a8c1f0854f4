"""A group of many consumers settles, as a small form of `make many-consumers`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.client.classic import many_consumers

pytestmark = [pytest.mark.integration, pytest.mark.thorough]


def test_consumers_in_two_processes_settle_and_half_of_them_leave(tmp_path: Path) -> None:
    found = many_consumers.settle(tmp_path, consumers=40, processes=2, partitions=200)
    print(found)  # the figure is that of 500 consumers
