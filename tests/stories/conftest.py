"""The broker that the stories share."""

from tests.support.peers import bootstrap, broker, create_topic, forgive_unclosed, topic, unique

__all__ = ["bootstrap", "broker", "create_topic", "forgive_unclosed", "topic", "unique"]
