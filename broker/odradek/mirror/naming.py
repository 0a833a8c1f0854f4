"""The names of mirrored and internal topics, as MirrorMaker 2 chooses them, and the names that are not mirrored.

    policy            topic `orders` of cluster `a`    topic `heartbeats` of cluster `a`
    default           a.orders                         a.heartbeats
    identity          orders                           a.heartbeats

The client tools of MirrorMaker 2 find clusters, checkpoints and heartbeats by names alone. So every rule here is
theirs, but for one. A heartbeat that came from one of the flow's own clusters is not mirrored again. With both aliases
on one cluster MirrorMaker 2 mirrors its own heartbeats without end.

What it leaves out: which topics a user asks for, which is in `settings`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HEARTBEATS_TOPIC: Final = "heartbeats"
DEFAULT_SEPARATOR: Final = "."

_INTERNAL: Final = "internal"
# Names that end so belong to Kafka Connect, whatever the separator is.
_CONNECT_SUFFIXES: Final = ("-internal", ".internal")
# Names that begin so belong to the brokers.
_BROKER_PREFIXES: Final = ("__", ".")


@dataclass(frozen=True, slots=True)
class ReplicationPolicy:
    """The names of a source's topics at the target: the alias of the source and a separator precede the name. It is
    MirrorMaker's DefaultReplicationPolicy.
    """

    separator: str = DEFAULT_SEPARATOR
    """`replication.policy.separator`: between the alias and the name."""
    is_separator_in_internal_names: bool = True
    """`replication.policy.internal.topic.separator.enabled`: whether internal topics have it too, or a full stop."""

    def remote_topic(self, source_alias: str, topic: str) -> str:
        """The name at the target of a source's topic."""
        return f"{source_alias}{self.separator}{topic}"

    def source_alias(self, topic: str) -> str | None:
        """The cluster that this topic was mirrored from; None if its name says none."""
        parts = _split(topic, self.separator)
        return parts[0] if parts else None

    def upstream_topic(self, topic: str) -> str | None:
        """The topic's name at the cluster that it was mirrored from; None if it was not mirrored."""
        parts = _split(topic, self.separator)
        return parts[1] if parts else None

    def original_topic(self, topic: str) -> str:
        """The topic's name at the cluster where it began."""
        while (upstream := self.upstream_topic(topic)) is not None and upstream != topic:
            topic = upstream
        return topic

    def is_internal(self, topic: str) -> bool:
        """Whether the topic belongs to brokers, to Kafka Connect or to mirroring, and is never mirrored."""
        if topic.startswith(_BROKER_PREFIXES) or topic.endswith(_CONNECT_SUFFIXES):
            return True
        is_of_mirroring = topic.startswith("mm2") and topic.endswith(self._internal_suffix())
        return is_of_mirroring or topic.endswith(self._checkpoints_suffix())

    def checkpoints_topic(self, source_alias: str) -> str:
        """The topic, at the target, with the offsets of the source's groups."""
        return f"{source_alias}{self._checkpoints_suffix()}"

    def offset_syncs_topic(self, target_alias: str) -> str:
        """The topic with pairs of offsets, named after the other cluster than the one that has it."""
        return f"mm2-offset-syncs{self._internal_separator()}{target_alias}{self._internal_suffix()}"

    def heartbeats_topic(self) -> str:
        """The topic that each flow writes its heartbeats to."""
        return HEARTBEATS_TOPIC

    def _internal_separator(self) -> str:
        return self.separator if self.is_separator_in_internal_names else DEFAULT_SEPARATOR

    def _internal_suffix(self) -> str:
        return f"{self._internal_separator()}{_INTERNAL}"

    def _checkpoints_suffix(self) -> str:
        return f"{self._internal_separator()}checkpoints{self._internal_suffix()}"


@dataclass(frozen=True, slots=True)
class IdentityReplicationPolicy(ReplicationPolicy):
    """Topics keep their names, so that clients move without a change; only heartbeats are renamed.

    Names say nothing about loops then. So `mirror` refuses an identity flow in both directions.
    """

    known_source_alias: str | None = None
    """The source that every topic is taken to come from; None where it is not known."""

    def remote_topic(self, source_alias: str, topic: str) -> str:
        if _looks_like_heartbeats(topic):
            return f"{source_alias}{self.separator}{topic}"
        return topic

    def source_alias(self, topic: str) -> str | None:
        if _looks_like_heartbeats(topic):
            parts = _split(topic, self.separator)
            return parts[0] if parts else None
        return self.known_source_alias

    def upstream_topic(self, topic: str) -> str | None:
        if _looks_like_heartbeats(topic):
            parts = _split(topic, self.separator)
            return parts[1] if parts else None
        return topic


def is_heartbeats(policy: ReplicationPolicy, topic: str) -> bool:
    """Whether this is the heartbeats' topic, of this cluster or mirrored from another."""
    return policy.original_topic(topic) == policy.heartbeats_topic()


def is_loop(policy: ReplicationPolicy, topic: str, *, source_alias: str, target_alias: str) -> bool:
    """Whether a topic of the source was mirrored from the target before: mirrored again it would go round for ever.

    For heartbeats a name with the source's own alias is a loop too.
    """
    ends = {target_alias, source_alias} if is_heartbeats(policy, topic) else {target_alias}
    name = topic
    while (alias := policy.source_alias(name)) is not None:
        if alias in ends:
            return True
        upstream = policy.upstream_topic(name)
        if upstream is None or upstream == name:
            return False
        name = upstream
    return False


def is_mirrorable(policy: ReplicationPolicy, topic: str, *, source_alias: str, target_alias: str) -> bool:
    """Whether a topic's name allows it to be mirrored at all, whatever the user asks for."""
    return not policy.is_internal(topic) and not is_loop(
        policy, topic, source_alias=source_alias, target_alias=target_alias
    )


def _split(topic: str, separator: str) -> tuple[str, str] | None:
    """The alias and the rest. As in Java, nothing but separators after the alias makes no mirrored name."""
    alias, _, rest = topic.partition(separator)
    return (alias, rest) if rest.replace(separator, "") else None


def _looks_like_heartbeats(topic: str) -> bool:
    return topic.endswith(HEARTBEATS_TOPIC)
