"""The settings of topics: names, defaults, allowed values, and the values in force for a topic.

A topic's own value wins, then its synonym: the broker's setting of the same meaning, as `log.retention.ms` for
`retention.ms`. A synonym may change while the broker runs. `log_config_values` turns them into the values that a log
uses. `metadata.image.config_description` describes them with their sources; the controller changes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from odradek.foundation.errors import InvalidConfig, SettingError
from odradek.foundation.settings.broker_settings import USED, Settings
from odradek.foundation.settings.declaration import Kind, Range, Setting, SettingValue, ThrottledReplicas
from odradek.foundation.words import nearest_name


def _like(key: str, broker_key: str, doc: str, *, default: object = None) -> Setting:
    """A topic's setting that means the same as a broker's."""
    same = USED[broker_key]
    setting = Setting(
        same.kind,
        same.default if default is None else default,
        doc,
        allowed=same.allowed,
        scope=same.scope,
        key=key,
        internal=same.internal,
    )
    setting.synonyms = (broker_key, *same.synonyms)
    return setting


def _own(key: str, kind: Kind, default: object, doc: str, **options: Any) -> Setting:
    """A topic's setting without a counterpart among the broker's."""
    return Setting(kind, default, doc, key=key, **options)


# As in Kafka it is described only where it is set. Resources and the reference have it: users set it.
ALLOWS_DEAD_LETTERS_KEY: Final = "errors.deadletterqueue.group.enable"
_WEEK_MS: Final = 604_800_000
_LONGEST_MS: Final = 2**63 - 1

_ALL: Final = (
    _like("cleanup.policy", "log.cleanup.policy", "Delete old segments, compact them by key, or both."),
    _like("compression.gzip.level", "compression.gzip.level", "The level when compression.type is gzip."),
    _like("compression.lz4.level", "compression.lz4.level", "The level when compression.type is lz4."),
    _like(
        "compression.type", "compression.type", "The codec of stored batches; producer keeps the producer's."
    ),
    _like("compression.zstd.level", "compression.zstd.level", "The level when compression.type is zstd."),
    _like("delete.retention.ms", "log.cleaner.delete.retention.ms", "How long deletion markers are kept."),
    _own(
        ALLOWS_DEAD_LETTERS_KEY,
        Kind.BOOLEAN,
        False,
        "Whether share groups may write their dead letters to the topic.",
        internal=True,
    ),
    _like("file.delete.delay.ms", "log.segment.delete.delay.ms", "How long deleted files stay on disk."),
    _like(
        "flush.messages",
        "log.flush.interval.messages",
        "Records after which the partition is flushed to disk.",
    ),
    _like(
        "flush.ms",
        "log.flush.interval.ms",
        "Time after which records are flushed to disk.",
        default=_LONGEST_MS,
    ),
    _own(
        "follower.replication.throttled.replicas",
        Kind.LIST,
        (),
        "Replicas that fetch at the throttled rate: * or partition:broker pairs.",
        allowed=ThrottledReplicas(),
    ),
    _like("index.interval.bytes", "log.index.interval.bytes", "Bytes of log between two index entries."),
    _own(
        "internal.segment.bytes",
        Kind.INT,
        None,
        "segment.bytes without its lower bound, for tests.",
        internal=True,
    ),
    _own(
        "leader.replication.throttled.replicas",
        Kind.LIST,
        (),
        "Replicas that the leader sends to at the throttled rate: * or partition:broker pairs.",
        allowed=ThrottledReplicas(),
    ),
    _like(
        "local.retention.bytes",
        "log.local.retention.bytes",
        "Bytes of a tiered partition kept on local disk.",
    ),
    _like("local.retention.ms", "log.local.retention.ms", "How long tiered records stay on local disk."),
    _like(
        "max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms", "A record is compacted after this long."
    ),
    _like(
        "max.decompressed.message.bytes",
        "max.decompressed.message.bytes",
        "The largest record in a compressed batch that may be written, decompressed.",
    ),
    _like("max.message.bytes", "message.max.bytes", "The largest batch that may be written."),
    _like(
        "message.timestamp.after.max.ms",
        "log.message.timestamp.after.max.ms",
        "How far after the broker's clock a record's time may lie.",
    ),
    _like(
        "message.timestamp.before.max.ms",
        "log.message.timestamp.before.max.ms",
        "How far before the broker's clock a record's time may lie.",
    ),
    _like(
        "message.timestamp.type",
        "log.message.timestamp.type",
        "Whether a record's time is the producer's or that of its append.",
    ),
    _like(
        "min.cleanable.dirty.ratio",
        "log.cleaner.min.cleanable.ratio",
        "The part of the log that must be uncompacted before compaction begins.",
    ),
    _like(
        "min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms", "How long a record stays uncompacted."
    ),
    _like("min.insync.replicas", "min.insync.replicas", "Replicas that must hold a record for acks=all."),
    _like(
        "preallocate",
        "log.preallocate",
        "Accepted, with no effect: file systems allocate as a segment grows.",
    ),
    _own("remote.log.copy.disable", Kind.BOOLEAN, False, "Tiered storage, which this broker does not have."),
    _own(
        "remote.log.delete.on.disable",
        Kind.BOOLEAN,
        False,
        "Tiered storage, which this broker does not have.",
    ),
    _own("remote.storage.enable", Kind.BOOLEAN, False, "Tiered storage, which this broker does not have."),
    _like(
        "retention.bytes",
        "log.retention.bytes",
        "A larger partition loses its oldest segments; -1 for no limit.",
    ),
    _like(
        "retention.ms",
        "log.retention.ms",
        "The age at which records are deleted; -1 for never.",
        default=_WEEK_MS,
    ),
    _like("segment.bytes", "log.segment.bytes", "The size at which a segment is closed."),
    _like("segment.index.bytes", "log.index.size.max.bytes", "The largest offset or time index."),
    _like(
        "segment.jitter.ms",
        "log.roll.jitter.ms",
        "The longest random time that is subtracted from a segment's age.",
        default=0,
    ),
    _like("segment.ms", "log.roll.ms", "The age at which a segment is closed.", default=_WEEK_MS),
    _like(
        "unclean.leader.election.enable",
        "unclean.leader.election.enable",
        "Whether a replica that is not in sync may lead when no other can, losing records.",
    ),
)

# Every key that a topic may have, in alphabetical order.
TOPIC_SETTINGS: Final[Mapping[str, Setting]] = MappingProxyType({setting.key: setting for setting in _ALL})

# The property of Settings for a value that several broker keys give.
_BROKER_ATTRIBUTES: Final = {
    "log.retention.ms": "effective_retention_ms",
    "log.roll.ms": "effective_roll_ms",
    "log.roll.jitter.ms": "effective_roll_jitter_ms",
    "log.flush.interval.ms": "effective_flush_ms",
}

# Limits of a topic's key that the broker's synonym does not have.
_LOWEST: Final = {"retention.ms": -1, "segment.ms": 1, "segment.jitter.ms": 0, "flush.ms": 0}


def _bind_lowest() -> None:
    for key, lowest in _LOWEST.items():
        TOPIC_SETTINGS[key].allowed = Range(lowest)


_bind_lowest()


def find_topic_setting(key: str) -> Setting:
    """The declaration of a topic's key. Raises InvalidConfig, with the nearest key, for one that no topic has."""
    return find_declared("topic", TOPIC_SETTINGS, key)


def find_declared(kind: str, declared: Mapping[str, Setting], key: str) -> Setting:
    """The declaration of a key of that `kind` of resource. Raises InvalidConfig, with the nearest key."""
    setting = declared.get(key)
    if setting is None:
        nearest = nearest_name(key, declared)
        hint = "" if nearest is None else f"; did you mean {nearest}?"
        raise InvalidConfig(f"Unknown {kind} config name: {key}{hint}")
    return setting


def format_declared(
    kind: str, declared: Mapping[str, Setting], values: Mapping[str, str | None]
) -> dict[str, str]:
    """The `values`, each of which its declaration allows. Raises InvalidConfig."""
    texts: dict[str, str] = {}
    for key, text in values.items():
        if text is None:
            raise InvalidConfig(f"Null value not supported for {kind} configs: {key}; leave the key out")
        try:
            find_declared(kind, declared, key).parse(text)
        except SettingError as error:
            raise InvalidConfig(str(error)) from None
        texts[key] = text
    return texts


def validate_topic_config(values: Mapping[str, str | None], *, settings: Settings) -> dict[str, str]:
    """The texts to store for a topic of these settings. `settings` are the broker's current ones.

    Raises InvalidConfig for an unknown key, a value that is not allowed, and values that contradict each other.
    """
    texts = format_declared("topic", TOPIC_SETTINGS, values)
    _refuse_contradictions(texts, settings)
    return texts


def _refuse_contradictions(texts: Mapping[str, str], settings: Settings) -> None:
    resolved = topic_values(texts, settings=settings)
    lowest, highest = resolved["min.compaction.lag.ms"], resolved["max.compaction.lag.ms"]
    if lowest > highest:
        raise InvalidConfig(
            f"conflict topic config setting min.compaction.lag.ms ({lowest}) > "
            f"max.compaction.lag.ms ({highest})"
        )
    if resolved["remote.storage.enable"]:
        raise InvalidConfig(
            "remote.storage.enable=true: this broker has no tiered storage; leave the key out and set retention.ms "
            "and retention.bytes to what the local disk holds"
        )


def broker_default(key: str, settings: Settings) -> SettingValue:
    """The value of a topic's key in the broker's settings."""
    setting = TOPIC_SETTINGS[key]
    if not setting.synonyms:
        return setting.default
    broker_key = setting.synonyms[0]
    attribute = _BROKER_ATTRIBUTES.get(broker_key, USED[broker_key].attribute)
    return getattr(settings, attribute)


def topic_value(key: str, texts: Mapping[str, str], *, settings: Settings) -> SettingValue:
    """One value of a topic: from its own text, else from the broker. A text that no longer parses (written by a later
    version) counts as absent, since a topic must stay readable.
    """
    text = texts.get(key)
    if text is not None:
        try:
            return TOPIC_SETTINGS[key].parse(text)
        except SettingError:
            return broker_default(key, settings)
    return broker_default(key, settings)


def topic_values(texts: Mapping[str, str], *, settings: Settings) -> dict[str, SettingValue]:
    """Every value of a topic, by key."""
    return {key: topic_value(key, texts, settings=settings) for key in TOPIC_SETTINGS}


_LOG_KEYS: Final = (
    "segment.bytes",
    "segment.ms",
    "segment.jitter.ms",
    "segment.index.bytes",
    "index.interval.bytes",
    "flush.messages",
    "flush.ms",
    "retention.ms",
    "retention.bytes",
    "max.message.bytes",
    "max.decompressed.message.bytes",
    "message.timestamp.type",
    "message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms",
    "compression.type",
    "file.delete.delay.ms",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "max.compaction.lag.ms",
    "delete.retention.ms",
)
_LOG_ATTRIBUTES: Final = tuple((key, key.replace(".", "_")) for key in _LOG_KEYS)


def log_config_values(texts: Mapping[str, str], *, settings: Settings) -> dict[str, SettingValue]:
    """The arguments of `storage.config.LogConfig` for a topic with these texts, under the broker's current settings."""
    values = {attribute: topic_value(key, texts, settings=settings) for key, attribute in _LOG_ATTRIBUTES}
    policy = topic_value("cleanup.policy", texts, settings=settings)
    values["cleanup_delete"] = "delete" in policy
    values["cleanup_compact"] = "compact" in policy
    values["compression_level"] = _compression_level(values["compression_type"], texts, settings)
    if "internal.segment.bytes" in texts:
        values["segment_bytes"] = topic_value("internal.segment.bytes", texts, settings=settings)
    return values


def _compression_level(codec: str, texts: Mapping[str, str], settings: Settings) -> int | None:
    key = f"compression.{codec}.level"
    if key not in TOPIC_SETTINGS:
        return None
    level: int = topic_value(key, texts, settings=settings)
    return None if (codec, level) == ("gzip", -1) else level
