"""One broker and one Spark session for all of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.java import JavaUnavailableError
from tests.support.peers import bootstrap, broker, create_topic, restartable, skip_or_fail, topic, unique
from tests.support.spark import spark_session

__all__ = ["bootstrap", "broker", "create_topic", "restartable", "topic", "unique"]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Spark session with the stock connector."""
    try:
        with spark_session(tmp_path_factory.mktemp("spark")) as session:
            yield session
    except JavaUnavailableError as error:
        skip_or_fail(str(error))
