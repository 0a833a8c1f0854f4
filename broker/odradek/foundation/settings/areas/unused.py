"""Keys of Kafka 4.1 to 4.4 that this broker knows but does not use, and those of older Kafkas.

They are accepted without a warning, because a `server.properties` for Kafka should work here. They are described like
every other key. Those that promise protection are refused: see `protection`. This module is imported only for a key
that is not the broker's own, or for a list of all keys. `unused.tsv` has the keys.
"""

from __future__ import annotations

from typing import Final

from odradek.foundation.settings.areas.protection import protection_setting_of
from odradek.foundation.settings.declaration import (
    Allowed,
    EachOf,
    Kind,
    NotEmpty,
    OneOf,
    Range,
    Scope,
    Setting,
)
from odradek.foundation.settings.known_names import read_names, read_rows

# The subject of each family of keys, and its prefixes; the first that matches gives a key its description.
_FAMILIES: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    (
        "the choice of a thread for assignments (the size of a group decides)",
        tuple(f"group.{kind}.assignor.offload." for kind in ("consumer", "share", "streams")),
    ),
    (
        "warm-up tasks of Streams groups (the sticky assignor makes none)",
        ("group.streams.num.warmup.", "group.streams.max.warmup."),
    ),
    ("assignors and stores of share groups by classes of Java", ("group.share.",)),
    ("waiting to write the states of several share-partitions at once", ("share.coordinator.append.",)),
    ("Kafka's threads and timers for share groups", ("share.",)),
    ("tiered storage", ("remote.",)),
    ("authentication with SASL", ("sasl.",)),
    ("encryption with TLS", ("ssl.",)),
    ("delegation tokens", ("delegation.token.",)),
    ("authentication by classes of Java", ("principal.builder.", "security.providers")),
    ("authorisation by classes of Java", ("early.start.listeners",)),
    ("policies by classes of Java", ("alter.config.policy.", "create.topic.policy.")),
    ("quotas by classes of Java", ("client.quota.callback.",)),
    ("the measuring of quotas", ("alter.log.dirs.replication.quota.", "replication.quota.")),
    ("Kafka's metadata quorum (KRaft)", ("controller.", "metadata.", "internal.metadata.", "process.roles")),
    ("Kafka's metadata quorum (KRaft)", ("initial.broker.registration.", "server.max.startup.")),
    ("Kafka's metadata quorum (KRaft)", ("unclean.leader.election.interval.",)),
    ("metrics of the Java virtual machine", ("kafka.metrics.", "metric")),
    ("waiting to write the commits of several groups at once", ("group.coordinator.append.",)),
    ("periodic matching of patterns (they are matched when topics change)", ("group.consumer.regex.",)),
    ("a separate round for start offsets (they are written with the recovery points)", ("log.flush.",)),
    ("connections between brokers", ("socket.connection.setup.",)),
    ("features in development in Kafka", ("unstable.",)),
    ("Kafka's threads and its queues of waiting requests", ("",)),
)

# Keys of Kafka before 4.0, by their beginning.
RETIRED_PREFIXES: Final = read_names(__file__, "retired.tsv")


def _describe(key: str) -> str:
    promise = protection_setting_of(key)
    if promise is not None:
        return (
            f"Asks that {promise.asks_for}, which this broker does not support: only the default is accepted."
        )
    family = next(words for words, prefixes in _FAMILIES if key.startswith(prefixes))
    return f"Belongs to {family}, which this broker does not have: accepted, not used."


def _rule(words: str) -> Allowed | None:
    """The rule that the file writes as `1..10`, `1..`, `not empty`, `one of A B` or `each of A B`."""
    if words == "-":
        return None
    if words == "not empty":
        return NotEmpty()
    for beginning, rule in (("one of ", OneOf), ("each of ", EachOf)):
        if words.startswith(beginning):
            allowed = words.removeprefix(beginning).split()
            return OneOf(*allowed, any_case=True) if rule is OneOf else EachOf(*allowed)
    minimum, _, maximum = words.partition("..")
    return Range(_number(minimum), _number(maximum) if maximum else None)


def _number(text: str) -> float:
    return float(text) if "." in text else int(text)


def _setting(key: str, kind: str, default: str, allowed: str, scope: str, internal: str = "") -> Setting:
    setting = Setting(
        Kind[kind.upper()],
        None,
        _describe(key),
        allowed=_rule(allowed),
        scope=Scope(scope),
        key=key,
        used=False,
        internal=bool(internal),
    )
    if default != "-":
        setting.default = setting.parse("" if default == '""' else default)
        setting.default_text = setting.text(setting.default)
    return setting


UNUSED: Final[dict[str, Setting]] = {row[0]: _setting(*row) for row in read_rows(__file__, "unused.tsv")}
