"""A source and a target of mirroring: one broker each, as processes.

`ODRADEK_TEST_PEER=kafka` puts Apache Kafka in the place of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.support.kafka_peer import KafkaPeer
from tests.support.peers import Peer, make_peer


class TwoClusters(NamedTuple):
    """Both brokers run."""

    source: Peer
    target: Peer


@pytest.fixture(scope="session")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoClusters]:
    """Two brokers for all tests of the session; tests may restart them, and leave them running."""
    brokers = TwoClusters(*(make_peer(tmp_path_factory.mktemp(name)) for name in TwoClusters._fields))
    for number, broker in enumerate(brokers):
        if isinstance(broker, KafkaPeer):
            broker.cluster_id = (
                f"b2RyYWRla21pcnJvcm1{number}AA"  # a mirror refuses a cluster as its own source
            )
    try:
        for broker in brokers:
            broker.start()
        yield brokers
    finally:
        for broker in brokers:
            if broker.is_running:
                broker.stop()
