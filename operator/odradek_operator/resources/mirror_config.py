"""More settings of a mirror, by key: all but those that the Mirror has fields for, and those that are secret.

A mirror's file is in a ConfigMap, so nothing secret may be in it. What a client logs in with is in a Secret that the
workers mount.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from odradek_operator.resources.schema import Schema, Text
from odradek_operator.resources.structure import Table

ENTRIES_MAX: Final = 128
KEY_LENGTH_MAX: Final = 256
_LENGTH_MAX: Final = 4096

OWNED_KEYS: Final[Mapping[str, str]] = {
    "bytes.per.second.max": "bytesPerSecondMax",
    "clusters": "target and sources",
    "emit.checkpoints.interval.seconds": "intervalSeconds.checkpoints",
    "emit.heartbeats.interval.seconds": "intervalSeconds.heartbeats",
    "enabled": "sources",
    "exactly.once.source.support": "exactlyOnce",
    "groups": "sources[].groups",
    "groups.exclude": "sources[].groupsExclude",
    "name": "name",
    "refresh.groups.interval.seconds": "intervalSeconds.groups",
    "refresh.topics.interval.seconds": "intervalSeconds.topics",
    "replication.factor": "replicationFactor",
    "replication.policy.class": "naming.policy",
    "replication.policy.separator": "naming.separator",
    "sync.group.offsets.enabled": "syncGroupOffsets",
    "sync.group.offsets.interval.seconds": "intervalSeconds.groupOffsets",
    "sync.topic.configs.enabled": "syncTopicConfigs",
    "sync.topic.configs.interval.seconds": "intervalSeconds.topicConfigs",
    "topics": "sources[].topics",
    "topics.exclude": "sources[].topicsExclude",
}
"""Keys of a mirror's file that the operator writes, and the field of the Mirror to set instead."""

WORKER_KEY: Final = "worker.id"
_CONNECTION: Final = re.compile(
    r"(^|\.)(sasl|ssl)\.|(^|\.)(bootstrap\.servers|security\.protocol)$|password|secret"
)
_KEY: Final = re.compile(r"[a-zA-Z0-9_.>-]+")
# A key of one flow begins with `source->target.`
_FLOW: Final = re.compile(r"^[^.]*->[^.]*\.")


class MirrorConfiguration(Schema):
    """Settings of a mirror by key, as texts."""

    shown = "settings of a mirror by key"

    def __init__(self) -> None:
        self._table = Table(Text(max_length=_LENGTH_MAX), max_entries=ENTRIES_MAX)

    def parse(self, value: object, path: str, problems: list[str]) -> Mapping[str, str]:
        found = self._table.parse(value, path, problems)
        problems += [
            f"{path}: {problem}" for key in found if (problem := _problem_of_key(str(key))) is not None
        ]
        return found

    def openapi(self) -> dict[str, object]:
        return self._table.openapi()

    def render(self, value: object) -> object:
        return self._table.render(value)


def _problem_of_key(key: str) -> str | None:
    if _KEY.fullmatch(key) is None or len(key) > KEY_LENGTH_MAX:
        return f"{key[:KEY_LENGTH_MAX]!r} is no key; keys have letters, digits, ., _, -, and -> between two aliases"
    bare = _FLOW.sub("", key)
    if bare in OWNED_KEYS:
        return f"{key} cannot be set here; set {OWNED_KEYS[bare]} of the Mirror"
    if bare == WORKER_KEY:
        return f"{key} cannot be set here; each worker is named by its pod"
    if _CONNECTION.search(key):
        return (
            f"{key} cannot be set here, where all can read it. Put it into client.properties of a Secret and name that "
            "in clientSecret, or name a User"
        )
    return None
