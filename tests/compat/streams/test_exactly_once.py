"""Kafka Streams with exactly_once_v2 while brokers and processors go away; `exactly_once` has the long version."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.streams.exactly_once import (
    FAULTS,
    Brokers,
    eos_test,
    failed_brokers,
    is_passed,
    running,
    started,
)
from tests.support.java import (
    KAFKA_OLD_VERSION,
    KAFKA_STREAMS_GROUPS_VERSION,
    JavaUnavailableError,
    streams_tests_classpath,
)
from tests.support.peers import forgive_unclosed, skip_or_fail

__all__ = ["forgive_unclosed"]

pytestmark = [
    pytest.mark.clients,
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.thorough,
]


@pytest.fixture(
    params=[KAFKA_OLD_VERSION, pytest.param(KAFKA_STREAMS_GROUPS_VERSION, marks=pytest.mark.proof)]
)
def version(request: pytest.FixtureRequest) -> str:
    """Of Kafka Streams: in the classic protocol, and with Streams groups."""
    return str(request.param)


@pytest.fixture
def cluster(tmp_path: Path, version: str) -> Iterator[Brokers]:
    try:
        streams_tests_classpath(version)
    except JavaUnavailableError as error:
        skip_or_fail(str(error))
    with running(tmp_path) as brokers:
        yield brokers


def test_kafkas_verifier_of_streams_finds_each_record_once(
    cluster: Brokers, tmp_path: Path, version: str
) -> None:
    faults = ["broker stopped", "broker killed", "processor killed"]
    with started(cluster, tmp_path, version=version) as programs:
        said = eos_test(programs, faults=faults, chance=random.Random(1))
    assert is_passed("eos", said), said[-4000:]
    assert failed_brokers(cluster) == []


def test_the_verifiers_words_are_understood() -> None:
    assert is_passed("eos", "repartition-3 with 1312, data-3 with 1312\nALL-RECORDS-DELIVERED\n")
    assert not is_passed("eos", "repartition-3 with 1312, data-3 with 1312\n")
    assert not is_passed("eos", "FAILED\nALL-RECORDS-DELIVERED\n")
    assert is_passed("smoke", "ALL-RECORDS-DELIVERED\nSUCCESS\n")
    assert not is_passed("smoke", "PROCESSED-MORE-THAN-GENERATED\nSUCCESS\n")
    assert not is_passed("smoke", "ALL-RECORDS-DELIVERED\nFAILURE\n")
    assert set(FAULTS) >= {"broker stopped", "broker killed", "processor killed"}
