"""One broker and one Spark session for all of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.java import JavaUnavailableError
from tests.support.peers import (
    CreateTopic,
    bootstrap,
    broker,
    restartable,
    skip_or_fail,
    topic_creator,
    unique,
)
from tests.support.spark import spark_session

__all__ = ["bootstrap", "broker", "restartable", "unique"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """PySpark leaves its sockets to the garbage collector, and uses what newer Pythons deprecate."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            for warning in ("ResourceWarning", "DeprecationWarning", "FutureWarning"):
                item.add_marker(pytest.mark.filterwarnings(f"ignore::{warning}"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Spark session with the stock connector, Delta, and Iceberg in the catalog `lake`."""
    try:
        folder = tmp_path_factory.mktemp("spark")
        with spark_session(folder, tables=folder / "lake") as session:
            yield session
    except JavaUnavailableError as error:
        skip_or_fail(str(error))


@pytest.fixture
def create_topic(bootstrap: str) -> CreateTopic:
    """Topics that keep what they hold: the records' times lie years back, where retention would remove them."""
    create = topic_creator(bootstrap)
    return lambda partitions=1, name=None: create(partitions, name, retention_ms=-1)
