"""A mirror's file: what the Mirror says, by MirrorMaker's keys. Nothing secret is in it.

What workers log in with is in Secrets that they mount. Their start puts both together, in memory only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from odradek_operator.desired.mirror_names import MirrorContext
from odradek_operator.desired.settings import properties
from odradek_operator.resources.mirror import MirrorSource, MirrorSpec, NamingPolicy

FILE: Final = "mirror.properties"
_POLICIES: Final = {
    NamingPolicy.DEFAULT: "DefaultReplicationPolicy",
    NamingPolicy.IDENTITY: "IdentityReplicationPolicy",
}
# MirrorMaker's own, which keys of a file replace: what a Mirror leaves out is left out besides.
_INTERNAL_TOPICS: Final = (r".*[\-\.]internal", r".*\.replica", "__.*")
_INTERNAL_GROUPS: Final = ("console-consumer-.*", "connect-.*", "__.*")
# The default of the cluster that has the topic, which its own operator or owner has set.
_CLUSTERS_DEFAULT: Final = "-1"


def mirror_properties(context: MirrorContext) -> str:
    spec, target = context.spec, context.spec.target_alias
    settings = _common_properties(context) | {
        "clusters": ", ".join([target, *(one.alias for one in spec.sources)])
    }
    for source in spec.sources:
        settings |= _flow_properties(source, target)
    for alias, bootstrap in context.bootstraps.items():
        settings[f"{alias}.bootstrap.servers"] = bootstrap
    return properties(settings)


def _common_properties(context: MirrorContext) -> dict[str, str]:
    spec, seconds = context.spec, context.spec.interval_seconds
    factor = _CLUSTERS_DEFAULT if spec.replication_factor is None else str(spec.replication_factor)
    settings = {
        "name": context.mirror_name,
        "exactly.once.source.support": "enabled" if spec.exactly_once else "disabled",
        "replication.policy.class": _POLICIES[spec.naming.policy],
        "replication.policy.separator": spec.naming.separator,
        "sync.group.offsets.enabled": _format_bool(spec.sync_group_offsets),
        "sync.topic.configs.enabled": _format_bool(spec.sync_topic_configs),
        # Users say what rights there are, and take others away: a mirror that copied rights would work against them.
        "sync.topic.acls.enabled": "false",
        "refresh.topics.interval.seconds": str(seconds.topics),
        "refresh.groups.interval.seconds": str(seconds.groups),
        "sync.topic.configs.interval.seconds": str(seconds.topic_configs),
        "emit.checkpoints.interval.seconds": str(seconds.checkpoints),
        "sync.group.offsets.interval.seconds": str(seconds.group_offsets),
        "emit.heartbeats.interval.seconds": str(seconds.heartbeats),
        "replication.factor": factor,
        "checkpoints.topic.replication.factor": factor,
        "heartbeats.topic.replication.factor": factor,
        "offset-syncs.topic.replication.factor": factor,
    }
    if spec.bytes_per_second_max is not None:
        settings["bytes.per.second.max"] = str(_bytes_per_worker(spec))
    return settings | dict(spec.config)


def _bytes_per_worker(spec: MirrorSpec) -> int:
    """The bytes per second that one worker may copy; none would be no limit."""
    assert spec.bytes_per_second_max is not None
    return max(1, spec.bytes_per_second_max // spec.replicas)


def _flow_properties(source: MirrorSource, target: str) -> dict[str, str]:
    prefix = f"{source.alias}->{target}."
    return {
        f"{prefix}enabled": "true",
        f"{prefix}topics": _join_patterns(source.topics),
        f"{prefix}topics.exclude": _join_patterns([*_INTERNAL_TOPICS, *source.topics_exclude]),
        f"{prefix}groups": _join_patterns(source.groups),
        f"{prefix}groups.exclude": _join_patterns([*_INTERNAL_GROUPS, *source.groups_exclude]),
    }


def _join_patterns(patterns: Iterable[str]) -> str:
    return ", ".join(patterns)


def _format_bool(value: bool) -> str:
    return "true" if value else "false"
