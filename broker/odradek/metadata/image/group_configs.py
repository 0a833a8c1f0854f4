"""The settings that a group may have of its own (KIP-848), with the broker's as their defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from odradek.foundation.errors import InvalidConfig
from odradek.foundation.settings.broker_settings import Settings, all_settings
from odradek.foundation.settings.declaration import Kind, OneOf, Range, Setting
from odradek.metadata.image.configs import find_declared, format_declared

_AT_LEAST_1: Final = Range(1)


class ShareResetForm:
    """Allows `earliest`, `latest`, and `by_duration:` with a duration that is not negative (KIP-1106)."""

    def check(self, value: str) -> str | None:
        if value in ("earliest", "latest"):
            return None
        try:
            parse_reset_duration_ms(value)
        except InvalidConfig:
            return str(self)
        return None

    def __str__(self) -> str:
        return "earliest, latest, or by_duration:PnDTnHnMn.nS"


_DURATION: Final = re.compile(
    r"by_duration:P(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{1,9})?)S)?)?", re.IGNORECASE
)


def parse_reset_duration_ms(text: str) -> int:
    """The milliseconds of `by_duration:PnDTnHnMn.nS`. Raises InvalidConfig for another text."""
    found = _DURATION.fullmatch(text)
    if found is None or all(part is None for part in found.groups()):
        raise InvalidConfig(f"{text!r} is not by_duration: and a duration such as PT1H30M")
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)


def _own(key: str, default: int, doc: str, allowed: Range = _AT_LEAST_1, *, used: bool = False) -> Setting:
    return Setting(Kind.INT, default, doc, key=key, allowed=allowed, used=used)


FENCED_UNTIL_KEY: Final = "odradek.fenced.until"
RESETS_KEY: Final = "odradek.resets"
DEAD_LETTER_TOPIC_KEY: Final = "errors.deadletterqueue.topic.name"
STREAMS_ASSIGNOR_KEY: Final = "streams.assignor.name"
COPY_RECORD_KEY: Final = "errors.deadletterqueue.copy.record.enable"
# Topics whose names begin with this are the cluster's own.
RESERVED_TOPIC_PREFIX: Final = "__"


def _declare_unused(key: str, kind: Kind, default: object, doc: str, allowed: Range | None = None) -> Setting:
    """Like Kafka's own documents, DescribeConfigs leaves such a key out where it is not set."""
    return Setting(
        kind, default, f"{doc} Accepted, not used.", key=key, allowed=allowed, used=False, internal=True
    )


def _declare_offload(kind: str) -> Setting:
    return _declare_unused(
        f"{kind}.assignor.offload.enable",
        Kind.BOOLEAN,
        True,
        "Whether assignments are computed in a thread. The size of a group decides that here.",
    )


_ALL: Final = (
    _own(
        "consumer.assignment.interval.ms",
        0,
        "The shortest time between two assignments of a consumer group.",
        Range(0),
        used=True,
    ),
    _declare_offload("consumer"),
    _own(
        "consumer.heartbeat.interval.ms",
        5000,
        "The time between heartbeats that the broker sends to members.",
        used=True,
    ),
    _own(
        "consumer.session.timeout.ms",
        45_000,
        "A member without a heartbeat for this long is removed.",
        used=True,
    ),
    Setting(
        Kind.STRING,
        "",
        "The topic that a share group's records go to which are rejected, or delivered too often; empty for none. The "
        "topic needs errors.deadletterqueue.group.enable=true.",
        key=DEAD_LETTER_TOPIC_KEY,
        used=True,
    ),
    Setting(
        Kind.BOOLEAN,
        False,
        "Whether a dead letter has the record's key and value, or only headers with its origin and the reason.",
        key=COPY_RECORD_KEY,
        used=True,
    ),
    _own(
        "share.assignment.interval.ms",
        1000,
        "The shortest time between two assignments of a share group.",
        Range(0),
        used=True,
    ),
    _declare_offload("share"),
    Setting(
        Kind.STRING,
        "latest",
        "Where a share group begins to read a partition: earliest, latest, or by_duration: and an ISO 8601 duration "
        "back from now.",
        key="share.auto.offset.reset",
        allowed=ShareResetForm(),
        used=True,
    ),
    _own(
        "share.delivery.count.limit",
        5,
        "How often a record is delivered before it counts as one that cannot be processed.",
        Range(2),
        used=True,
    ),
    _own(
        "share.heartbeat.interval.ms",
        5000,
        "The time between heartbeats that the broker sends to members of a share group.",
        used=True,
    ),
    Setting(
        Kind.STRING,
        "read_uncommitted",
        "Whether records of transactions are delivered once they are committed, or all.",
        key="share.isolation.level",
        allowed=OneOf("read_committed", "read_uncommitted"),
        used=True,
    ),
    _own(
        "share.partition.max.record.locks",
        2000,
        "Records of one partition that the group may have in flight.",
        Range(100),
        used=True,
    ),
    _own(
        "share.record.lock.duration.ms",
        30_000,
        "How long a member has a record for itself, before another one is given it.",
        Range(1000),
        used=True,
    ),
    Setting(
        Kind.BOOLEAN,
        True,
        "Whether a member may renew its lock of a record.",
        key="share.renew.acknowledge.enable",
        used=True,
    ),
    _own(
        "share.session.timeout.ms",
        45_000,
        "A member of a share group without a heartbeat for this long is removed.",
        used=True,
    ),
    Setting(
        Kind.LONG,
        10_000,
        "The lag of a copy of a task that counts as caught up. Members learn it; like Kafka, the broker does not "
        "use it.",
        key="streams.acceptable.recovery.lag",
        allowed=Range(0),
        used=True,
        internal=True,
    ),
    _own(
        "streams.assignment.interval.ms",
        1000,
        "The shortest time between two assignments of a Streams group.",
        Range(0),
        used=True,
    ),
    Setting(
        Kind.STRING,
        "sticky",
        "The assignor of the group's tasks. There is one.",
        key=STREAMS_ASSIGNOR_KEY,
        used=True,
    ),
    _declare_offload("streams"),
    _own(
        "streams.heartbeat.interval.ms",
        5000,
        "The time between heartbeats that the broker sends to members of a Streams group.",
        used=True,
    ),
    _own(
        "streams.initial.rebalance.delay.ms",
        3000,
        "How long the first assignment of a Streams group without members waits for more members.",
        Range(0),
        used=True,
    ),
    _own(
        "streams.num.standby.replicas",
        0,
        "Standby tasks for each task with state, as far as there are processes for them.",
        Range(0),
        used=True,
    ),
    _declare_unused(
        "streams.num.warmup.replicas",
        Kind.INT,
        2,
        "Copies of tasks that catch up before they move. The sticky assignor makes none, as in Kafka 4.4.",
        Range(0),
    ),
    Setting(
        Kind.LIST,
        (),
        "The tags of clients that standby tasks should be spread by. Like Kafka's, the sticky assignor does not spread "
        "by them.",
        key="streams.rack.aware.assignment.tags",
        used=True,
    ),
    _own(
        "streams.session.timeout.ms",
        45_000,
        "A member of a Streams group without a heartbeat for this long is removed.",
        used=True,
    ),
    Setting(
        Kind.INT,
        60_000,
        "The time between reports of changelog offsets that members of a Streams group are asked for.",
        key="streams.task.offset.interval.ms",
        allowed=_AT_LEAST_1,
        used=True,
        internal=True,
    ),
    Setting(
        Kind.LONG,
        0,
        "The group has no members up to this time, in milliseconds since 1970. Its members are removed, and joins are "
        "refused with an error that clients retry. So offsets of a group can be changed while its consumers run; they "
        "join again by themselves afterwards. Not one of Kafka's.",
        key=FENCED_UNTIL_KEY,
        allowed=Range(0),
        used=True,
    ),
    Setting(
        Kind.LIST,
        (),
        "The resets of offsets that a ConsumerGroup resource has made, as digests of their ids, the newest last. The "
        "operator keeps them here, so that none is made twice when the resource is deleted and applied again. Not one "
        "of Kafka's.",
        key=RESETS_KEY,
        used=True,
    ),
)

GROUP_SETTINGS: Final[Mapping[str, Setting]] = MappingProxyType({setting.key: setting for setting in _ALL})


def find_group_setting(key: str) -> Setting:
    """The declaration of a group's key. Raises InvalidConfig, with the nearest key, for one that no group has."""
    return find_declared("group", GROUP_SETTINGS, key)


def validate_group_config(values: Mapping[str, str | None], *, settings: Settings) -> dict[str, str]:
    """The texts to store. Raises InvalidConfig, also for values outside the broker's limits."""
    texts = format_declared("group", GROUP_SETTINGS, values)
    for key in GROUP_BOUNDS:
        if key in texts:
            _refuse_out_of_bounds(key, int(texts[key]), settings)
    for kind in ("consumer", "share", "streams"):
        interval_ms = group_value(f"{kind}.heartbeat.interval.ms", texts, settings=settings)
        timeout_ms = group_value(f"{kind}.session.timeout.ms", texts, settings=settings)
        if interval_ms >= timeout_ms:
            raise InvalidConfig(
                f"{kind}.session.timeout.ms ({timeout_ms}) must be greater than "
                f"{kind}.heartbeat.interval.ms ({interval_ms})"
            )
    if texts.get(DEAD_LETTER_TOPIC_KEY, "").startswith(RESERVED_TOPIC_PREFIX):
        raise InvalidConfig(
            f"{DEAD_LETTER_TOPIC_KEY}: DLQ topic name must not start with '{RESERVED_TOPIC_PREFIX}'"
        )
    assignors = settings.group_streams_assignors
    if texts.get(STREAMS_ASSIGNOR_KEY, assignors[0]) not in assignors:
        raise InvalidConfig(
            f"{STREAMS_ASSIGNOR_KEY}={texts[STREAMS_ASSIGNOR_KEY]} must be one of the broker's "
            f"{broker_key_of(STREAMS_ASSIGNOR_KEY)}={','.join(assignors)}"
        )
    tags = [
        tag.strip() for tag in texts.get("streams.rack.aware.assignment.tags", "").split(",") if tag.strip()
    ]
    if len(set(tags)) < len(tags):
        raise InvalidConfig("streams.rack.aware.assignment.tags must not contain duplicate tag keys.")
    return texts


def _between(kind: str, name: str) -> tuple[str, str]:
    return f"group.{kind}.min.{name}", f"group.{kind}.max.{name}"


# The broker's settings that bound a group's: the lowest value and the highest, None where there is none.
GROUP_BOUNDS: Final[Mapping[str, tuple[str | None, str | None]]] = MappingProxyType(
    {
        **{
            f"{kind}.{name}": _between(kind, name)
            for kind in ("consumer", "share", "streams")
            for name in ("session.timeout.ms", "heartbeat.interval.ms")
        },
        **{
            f"share.{name}": _between("share", name)
            for name in (
                "assignment.interval.ms",
                "delivery.count.limit",
                "partition.max.record.locks",
                "record.lock.duration.ms",
            )
        },
        "consumer.assignment.interval.ms": _between("consumer", "assignment.interval.ms"),
        "streams.assignment.interval.ms": _between("streams", "assignment.interval.ms"),
        "streams.num.standby.replicas": (None, "group.streams.max.standby.replicas"),
        "streams.task.offset.interval.ms": ("group.streams.min.task.offset.interval.ms", None),
    }
)


def _refuse_out_of_bounds(key: str, value: int, settings: Settings) -> None:
    lowest_key, highest_key = GROUP_BOUNDS[key]
    if lowest_key is not None and value < (lowest := _read_bound(lowest_key, settings)):
        raise InvalidConfig(f"{key}={value} must be at least the broker's {lowest_key}={lowest}")
    if highest_key is not None and value > (highest := _read_bound(highest_key, settings)):
        raise InvalidConfig(f"{key}={value} must be at most the broker's {highest_key}={highest}")


def _read_bound(broker_key: str, settings: Settings) -> int:
    found: int = getattr(settings, broker_key.replace(".", "_"))
    return found


def parse_fenced_until_ms(texts: Mapping[str, str]) -> int:
    """The time up to which a group with these texts admits no member, in milliseconds since 1970; or 0."""
    return int(texts.get(FENCED_UNTIL_KEY, 0))


def broker_key_of(key: str) -> str:
    """The broker's key with the default of a group's."""
    return "group.streams.assignors" if key == STREAMS_ASSIGNOR_KEY else f"group.{key}"


def has_broker_key(key: str) -> bool:
    """Whether the broker has a default of its own for a group's key."""
    return broker_key_of(key) in all_settings()


def group_value(key: str, texts: Mapping[str, str], *, settings: Settings) -> int:
    """A whole number of a group: its own, else the broker's."""
    text = texts.get(key)
    if text is not None:
        return int(text)
    broker_value: int = getattr(settings, broker_key_of(key).replace(".", "_"))
    return broker_value


def group_text(key: str, texts: Mapping[str, str]) -> str:
    """The text of a group's setting that the broker has no default of: its own, else the declared one."""
    return texts.get(key, GROUP_SETTINGS[key].default_text or "")


def is_group_switched_on(key: str, texts: Mapping[str, str]) -> bool:
    """A group's setting that is true or false, and that the broker has no default of."""
    return group_text(key, texts) == "true"
