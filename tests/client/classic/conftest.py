"""One broker for the documents' clients, and a name for each test."""

from tests.support.peers import bootstrap, broker, create_topic, forgive_unclosed, restartable, topic, unique

__all__ = ["bootstrap", "broker", "create_topic", "forgive_unclosed", "restartable", "topic", "unique"]
