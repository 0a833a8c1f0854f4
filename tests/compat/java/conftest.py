"""Two generations of Java's clients, each in a JVM of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.java import JavaUnavailableError, kafka_classpath, old_clients_classpath
from tests.support.java_gateway import java_gateway
from tests.support.peers import skip_or_fail


def _jvm(classpath: Callable[[], str]) -> Iterator[Any]:
    try:
        with java_gateway(classpath()) as jvm:
            yield jvm
    except JavaUnavailableError as error:
        skip_or_fail(str(error))


@pytest.fixture(scope="session")
def jvm_4_1() -> Iterator[Any]:
    """Kafka's clients 4.1.1."""
    yield from _jvm(kafka_classpath)


@pytest.fixture(scope="session")
def jvm_3_9() -> Iterator[Any]:
    """The clients 3.9 that Spark's connector brings."""
    yield from _jvm(old_clients_classpath)


@pytest.fixture
def jvm(request: pytest.FixtureRequest) -> Any:
    """The JVM that the test's parameter names."""
    return request.getfixturevalue(f"jvm_{request.param}")
