"""One broker with a listener of every secured kind, for the clients' tests."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest

with warnings.catch_warnings():
    # kafka-python calls what newer Pythons deprecate.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka  # noqa: F401

from tests.support.peers import forgive_unclosed
from tests.support.secured_broker import SecuredBroker

__all__ = ["forgive_unclosed", "secured"]


@pytest.fixture(scope="package")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    broker = SecuredBroker(
        tmp_path_factory.mktemp("secured"),
        kinds={"CLIENTS": "SSL", "NAMED": "SSL"},
        settings={"listener.name.named.ssl.client.auth": "required"},
    )
    broker.start()
    yield broker
    assert broker.stop() == 0
