"""A broker for tests: a context manager for any test runner, and a pytest plugin with fixtures.

with odradek.testing.broker() as broker:
    broker.create_topic("orders", partitions=3)
    ...  # any Kafka client, at broker.bootstrap

The names are imported when they are first used: pytest loads the plugin in every run, also without a broker.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from odradek.testing.context import broker
    from odradek.testing.process import BrokerFailedToStartError, TestBroker

__all__ = ["BrokerFailedToStartError", "TestBroker", "broker"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from odradek.testing import context, process

    return getattr(context if name == "broker" else process, name)
