"""A source and a target of mirroring: one broker each, as processes.

`ODRADEK_TEST_PEER=kafka` puts Apache Kafka in the place of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.support.peers import Peer, make_peer


class TwoClusters(NamedTuple):
    """Both brokers run."""

    source: Peer
    target: Peer


@pytest.fixture(scope="session")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoClusters]:
    """Two brokers for all tests of the session; tests may restart them, and leave them running."""
    brokers = TwoClusters(*(make_peer(tmp_path_factory.mktemp(name)) for name in TwoClusters._fields))
    try:
        for broker in brokers:
            broker.start()
        yield brokers
    finally:
        for broker in brokers:
            if broker.is_running:
                broker.stop()
