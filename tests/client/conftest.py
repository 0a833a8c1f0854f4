"""The broker that the client's tests share; `ODRADEK_TEST_PEER=kafka` puts Apache Kafka in its place."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odradek.protocol import messages
from tests.support.peers import bootstrap, broker, unique

__all__ = ["bootstrap", "broker", "unique"]


@pytest.fixture(autouse=True)
def checked_field_names() -> Iterator[None]:
    """A misspelt field of a request is an error in these tests."""
    messages.check_field_names()
    yield
    messages.check_field_names(False)
