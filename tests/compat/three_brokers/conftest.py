"""Three brokers, two controllers and a ZooKeeper, as processes, for all tests of this folder.

Tests may stop and kill members, and leave them running.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.compat.three_brokers.bounces import SETTINGS, running_cluster
from tests.support.cluster_processes import Cluster
from tests.support.java import JavaUnavailableError, kafka_classpath
from tests.support.peers import QUICK, forgive_unclosed, skip_or_fail

__all__ = ["cluster", "forgive_unclosed"]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    try:
        kafka_classpath()
    except JavaUnavailableError as error:
        skip_or_fail(str(error))
    with running_cluster(tmp_path_factory.mktemp("three-brokers"), {**QUICK, **SETTINGS}) as running:
        yield running
