"""The properties of the documents' clients, with the spellings of Kafka 0.7 and of 0.8 to 1.1.

Where a default changed between them, the later one holds. `request.required.acks` alone keeps -1: with 0, a broker's
death loses messages without a word. A property that has no meaning here is refused, so that none is taken for granted.

Security is that of today's clients to brokers: security.protocol, sasl.* and ssl.*. To ZooKeeper it is a broker's own:
zookeeper.digest.*, zookeeper.sasl.client, zookeeper.ssl.* and zookeeper.set.acl.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from odradek.client.classic.errors import InvalidConfigException
from odradek.client.properties import PLAINTEXT, SECURITY_PROTOCOL, check_security
from odradek.foundation.errors import SettingError
from odradek.foundation.settings.areas.zookeeper import USED, ZookeeperSettings
from odradek.foundation.settings.declaration import OneOf, boolean, integer, text, words
from odradek.foundation.settings.tables import SettingTable
from odradek.network.network import Network
from odradek.wire.records.compression import Compression

_BROKER_PREFIXES: Final = ("security.", "sasl.", "ssl.")
# Those that the clients have properties of their own for, and the number of requests under way.
_OTHERS: Final = {
    "zookeeper.connect",
    "zookeeper.session.timeout.ms",
    "zookeeper.connection.timeout.ms",
    "zookeeper.max.in.flight.requests",
}
_ZOOKEEPER_NAMES: Final = frozenset(USED) - _OTHERS


def codec(name: str) -> Compression:
    """A codec by its name, or by its number as in 0.7. Raises ValueError."""
    names = {one.name.lower(): one for one in Compression} | {str(int(one)): one for one in Compression}
    if name not in names:
        raise ValueError(f"one of {', '.join(one.name.lower() for one in Compression)}")
    return names[name]


class ClientSecurity:
    """What a client's properties say of security."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        """Raises InvalidConfigException. No value is shown, since it may be a secret."""
        self._brokers = {name: text for name, text in texts.items() if name.startswith(_BROKER_PREFIXES)}
        self.zookeeper = {name: text for name, text in texts.items() if name in _ZOOKEEPER_NAMES}
        try:
            check_security(self._brokers, source="the client's configuration")
            ZookeeperSettings(self.zookeeper)
        except SettingError as failure:
            raise InvalidConfigException(str(failure)) from None

    @property
    def names(self) -> frozenset[str]:
        """The properties that belong here."""
        return frozenset((*self._brokers, *self.zookeeper))

    @property
    def protocol(self) -> str:
        """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
        return self._brokers.get(SECURITY_PROTOCOL, PLAINTEXT).strip().upper()

    def network(self, given: Network | None, *, client_id: str) -> Network | None:
        """The network of a client; `given` is the one that the program has made.

        Raises InvalidConfigException for properties that cannot serve, DependencyError for PKCS#12 without its package.
        """
        if self.protocol == PLAINTEXT:
            return given
        if given is not None:
            raise InvalidConfigException(
                f"{SECURITY_PROTOCOL} and a network of the program's own were given; give one"
            )
        # It loads what TLS and logins need.
        from odradek.client.secured import secured_network

        try:
            return secured_network(self._brokers, client_id=client_id)
        except SettingError as failure:
            raise InvalidConfigException(str(failure)) from None


class Properties:
    """The values in force, by the later spelling: `values["group.id"]`."""

    def __init__(self, declared: SettingTable, given: Mapping[str, object]) -> None:
        """Raises InvalidConfigException for an unknown name, a wrong value, and two spellings that disagree."""
        texts = {name: _text(value) for name, value in given.items()}
        self.given = dict(given)
        self.security = ClientSecurity(texts)
        texts = {name: value for name, value in texts.items() if name not in self.security.names}
        try:
            self._values = declared.read(declared.collect(texts))
        except SettingError as failure:
            raise InvalidConfigException(str(failure)) from None

    def __getitem__(self, name: str) -> Any:
        return self._values[name]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, type):
        return f"{value.__module__}:{value.__qualname__}"
    return str(value).strip()


_COMMON: Final = {
    "zookeeper.connect zk.connect": text("", "ZooKeeper's addresses, HOST:PORT,…/CHROOT"),
    "zookeeper.session.timeout.ms zk.sessiontimeout.ms": integer(
        6000, "how long ZooKeeper keeps a session that is silent", 1
    ),
    "zookeeper.connection.timeout.ms zk.connectiontimeout.ms": integer(
        6000, "how long to wait for ZooKeeper", 1
    ),
    "client.id": text("odradek", "the name that brokers log"),
    "request.timeout.ms socket.timeout.ms": integer(30000, "how long a request waits", 1),
}

PRODUCER: Final = SettingTable(
    _COMMON,
    {
        "metadata.broker.list broker.list": text("", "bootstrap brokers, HOST:PORT or ID:HOST:PORT"),
        "producer.type": text("sync", "whether send waits for the broker", OneOf("sync", "async")),
        "queue.buffering.max.ms queue.time": integer(5000, "async: the age that is sent", 0),
        "queue.buffering.max.messages queue.size": integer(10000, "async: messages that may wait", 1),
        "queue.enqueue.timeout.ms queue.enqueueTimeout.ms": integer(
            -1, "async, full queue: 0 refuses at once, -1 waits for ever", -1
        ),
        "batch.num.messages batch.size": integer(200, "async: messages of one batch", 1),
        "request.required.acks": integer(-1, "-1, 0 or 1", -1),
        "delivery.timeout.ms": integer(120000, "how long a batch is retried until it fails", 1),
        "compression.codec": text("none", "none, gzip, snappy, lz4, zstd", into=codec),
        "compressed.topics": words((), "the topics that compression.codec is for; all of them without names"),
        "topic.metadata.refresh.interval.ms": integer(
            30000, "the age at which partitions and leaders are asked for again; -1: after failures alone", -1
        ),
        "event.handler": text("", "the class that takes batches in place of encoding and sending"),
        "callback.handler": text("", "async: the class that is called at the stages of the queue"),
        "partitioner.class": text("", "the class that chooses partitions by keys"),
        "serializer.class": text("", "the class that turns messages, and keys, into bytes"),
        "key.serializer.class": text("", "the class that turns keys into bytes"),
        "max.message.size": integer(1000000, "the largest encoded message in bytes", 1),
    },
)

# All else are arguments there.
SIMPLE_CONSUMER: Final = SettingTable({})

CONSUMER: Final = SettingTable(
    _COMMON,
    {
        "group.id groupid": text("", "the group"),
        "consumer.id consumerid": text("", "the consumer's id, in place of HOST-TIME-RANDOM"),
        "auto.commit.enable autocommit.enable": boolean(True, "whether offsets are committed"),
        "auto.commit.interval.ms autocommit.interval.ms": integer(60000, "how often they are", 1),
        "auto.offset.reset autooffset.reset": text(
            "largest",
            "where to begin without an offset, and where the log no longer has it",
            OneOf("smallest", "largest", "error"),
        ),
        "consumer.timeout.ms": integer(-1, "how long a stream waits for a message; -1: for ever", -1),
        "fetch.message.max.bytes fetch.size": integer(1048576, "bytes of a partition's fetch", 1),
        "fetch.min.bytes": integer(1, "bytes that a broker waits for", 0),
        "fetch.wait.max.ms": integer(100, "how long it waits for them", 0),
        "queued.max.message.chunks queuedchunks.max": integer(2, "batches waiting in a stream", 1),
        "rebalance.backoff.ms": integer(2000, "the longest pause between two tries to own partitions", 1),
        "offsets.storage": text(
            "zookeeper",
            "where offsets are: in ZooKeeper, or with the group's coordinator",
            OneOf("zookeeper", "kafka"),
        ),
        "exclude.internal.topics": boolean(True, "whether filters leave out Kafka's own topics"),
    },
)
