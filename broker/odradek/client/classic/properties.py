"""The properties of the documents' clients, with the spellings of Kafka 0.7 and of 0.8 to 1.1.

Where a default changed between them, the later one holds. `request.required.acks` alone keeps -1: with 0, a broker's
death loses messages without a word. A property that has no meaning here is refused, so that none is taken for granted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from odradek.client.classic.errors import InvalidConfigException
from odradek.foundation.words import nearest_name
from odradek.wire.records.compression import Compression

_TRUE_FALSE: Final = {"true": True, "false": False}


class Property(NamedTuple):
    """One property: its names (the later spelling first), its default as text, and what reads its value."""

    names: tuple[str, ...]
    default: str
    parse: Callable[[str], Any]
    meaning: str


def whole_number(lowest: int) -> Callable[[str], int]:
    """A reader of numbers from `lowest` on."""

    def parse(text: str) -> int:
        if not text.lstrip("-").isdecimal() or int(text) < lowest:
            raise ValueError(f"takes a whole number from {lowest} on")
        return int(text)

    return parse


def one_of(*words: str) -> Callable[[str], str]:
    """A reader of one word among several."""

    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(f"can be {', '.join(words)}")
        return text

    return parse


def true_or_false(text: str) -> bool:
    """`true` or `false`."""
    if text not in _TRUE_FALSE:
        raise ValueError("can be true, false")
    return _TRUE_FALSE[text]


def codec(text: str) -> Compression:
    """A codec by its name, or by its number as in 0.7."""
    names = {one.name.lower(): one for one in Compression} | {str(int(one)): one for one in Compression}
    if text not in names:
        raise ValueError(f"can be {', '.join(one.name.lower() for one in Compression)}")
    return names[text]


def words(text: str) -> frozenset[str]:
    """Names with commas between them."""
    return frozenset(part.strip() for part in text.split(",") if part.strip())


def plain(text: str) -> str:
    """The text itself."""
    return text


class Properties:
    """The values in force, by the later spelling: `values["group.id"]`."""

    def __init__(self, declared: tuple[Property, ...], given: Mapping[str, object]) -> None:
        """Raises InvalidConfigException for an unknown name, a wrong value, and two spellings that disagree."""
        by_name = {name: one for one in declared for name in one.names}
        self._values: dict[str, Any] = {}
        texts: dict[str, str] = {}
        for name, value in given.items():
            one = by_name.get(name)
            if one is None:
                nearest = nearest_name(name, by_name)
                hint = "" if nearest is None else f"; did you mean {nearest}?"
                raise InvalidConfigException(f"there is no property {name!r}{hint}")
            text = _text(value)
            main = one.names[0]
            if texts.setdefault(main, text) != text:
                raise InvalidConfigException(
                    f"{' and '.join(one.names)} are one property, and have two values: {texts[main]!r}, {text!r}"
                )
        for one in declared:
            main = one.names[0]
            try:
                self._values[main] = one.parse(texts.get(main, one.default))
            except ValueError as failure:
                raise InvalidConfigException(f"{main} is {texts[main]!r}; it {failure}") from None

    def __getitem__(self, name: str) -> Any:
        return self._values[name]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).strip()


_POSITIVE: Final = whole_number(1)
_NATURAL: Final = whole_number(0)

COMMON: Final = (
    Property(("zookeeper.connect", "zk.connect"), "", plain, "ZooKeeper's addresses, HOST:PORT,…/CHROOT"),
    Property(
        ("zookeeper.session.timeout.ms", "zk.sessiontimeout.ms"),
        "6000",
        _POSITIVE,
        "how long ZooKeeper keeps a session that is silent",
    ),
    Property(
        ("zookeeper.connection.timeout.ms", "zk.connectiontimeout.ms"),
        "6000",
        _POSITIVE,
        "how long to wait for ZooKeeper",
    ),
    Property(("client.id",), "odradek", plain, "the name that brokers log"),
    Property(("request.timeout.ms", "socket.timeout.ms"), "30000", _POSITIVE, "how long a request waits"),
)

PRODUCER: Final = (
    *COMMON,
    Property(
        ("metadata.broker.list", "broker.list"), "", plain, "bootstrap brokers, HOST:PORT or ID:HOST:PORT"
    ),
    Property(("producer.type",), "sync", one_of("sync", "async"), "whether send waits for the broker"),
    Property(("queue.buffering.max.ms", "queue.time"), "5000", _NATURAL, "async: the age that is sent"),
    Property(
        ("queue.buffering.max.messages", "queue.size"), "10000", _POSITIVE, "async: messages that may wait"
    ),
    Property(
        ("queue.enqueue.timeout.ms", "queue.enqueueTimeout.ms"),
        "-1",
        whole_number(-1),
        "async, full queue: 0 refuses at once, -1 waits for ever",
    ),
    Property(("batch.num.messages", "batch.size"), "200", _POSITIVE, "async: messages of one batch"),
    Property(("request.required.acks",), "-1", whole_number(-1), "-1, 0 or 1"),
    Property(("delivery.timeout.ms",), "120000", _POSITIVE, "how long a batch is retried until it fails"),
    Property(("compression.codec",), "none", codec, "none, gzip, snappy, lz4, zstd"),
    Property(
        ("compressed.topics",),
        "",
        words,
        "the topics that compression.codec is for; all of them without names",
    ),
    Property(("max.message.size",), "1000000", _POSITIVE, "the largest encoded message in bytes"),
)

CONSUMER: Final = (
    *COMMON,
    Property(("group.id", "groupid"), "", plain, "the group"),
    Property(("consumer.id", "consumerid"), "", plain, "the consumer's id, in place of HOST-TIME-RANDOM"),
    Property(
        ("auto.commit.enable", "autocommit.enable"), "true", true_or_false, "whether offsets are committed"
    ),
    Property(("auto.commit.interval.ms", "autocommit.interval.ms"), "60000", _POSITIVE, "how often they are"),
    Property(
        ("auto.offset.reset", "autooffset.reset"),
        "largest",
        one_of("smallest", "largest", "error"),
        "where to begin without an offset, and where the log no longer has it",
    ),
    Property(
        ("consumer.timeout.ms",),
        "-1",
        whole_number(-1),
        "how long a stream waits for a message; -1: for ever",
    ),
    Property(("fetch.message.max.bytes", "fetch.size"), "1048576", _POSITIVE, "bytes of a partition's fetch"),
    Property(("fetch.min.bytes",), "1", _NATURAL, "bytes that a broker waits for"),
    Property(("fetch.wait.max.ms",), "100", _NATURAL, "how long it waits for them"),
    Property(
        ("queued.max.message.chunks", "queuedchunks.max"), "2", _POSITIVE, "batches waiting in a stream"
    ),
    Property(
        ("rebalance.backoff.ms",), "2000", _POSITIVE, "the longest pause between two tries to own partitions"
    ),
    Property(
        ("offsets.storage",),
        "zookeeper",
        one_of("zookeeper", "kafka"),
        "where offsets are: in ZooKeeper, or with the group's coordinator",
    ),
    Property(
        ("exclude.internal.topics",), "true", true_or_false, "whether filters leave out Kafka's own topics"
    ),
)
