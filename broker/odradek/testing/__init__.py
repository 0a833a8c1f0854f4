"""A broker for tests: a context manager for any test runner, and a pytest plugin with fixtures.

with odradek.testing.broker() as broker:
    broker.create_topic("orders", partitions=3)
    ...  # any Kafka client, at broker.bootstrap
"""

from odradek.testing.process import BrokerFailedToStartError, TestBroker, broker

__all__ = ["BrokerFailedToStartError", "TestBroker", "broker"]
