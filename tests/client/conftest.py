"""The broker that the client's tests share; `ODRADEK_TEST_PEER=kafka` puts Apache Kafka in its place."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.field_names import check_field_names
from tests.support.peers import bootstrap, broker, unique

__all__ = ["bootstrap", "broker", "unique"]


@pytest.fixture(autouse=True)
def checked_field_names() -> Iterator[None]:
    """A misspelt field of a request is an error in these tests."""
    check_field_names()
    yield
    check_field_names(False)
