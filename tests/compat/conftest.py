"""The broker and topics that the clients' tests share."""

from tests.support.peers import bootstrap, broker, create_topic, forgive_unclosed, restartable, topic, unique

__all__ = ["bootstrap", "broker", "create_topic", "forgive_unclosed", "restartable", "topic", "unique"]
