"""The broker that the console's tests share; `ODRADEK_TEST_PEER=kafka` puts Apache Kafka in its place."""

from __future__ import annotations

from tests.support.peers import bootstrap, broker, unique

__all__ = ["bootstrap", "broker", "unique"]
