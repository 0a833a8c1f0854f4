"""The registry's nodes of ACLs: one for each resource pattern, where Kafka with ZooKeeper had them.

    /kafka-acl/Topic/NAME                     literal patterns: {"version":1,"acls":[{"principal":"User:alice",
                                              "permissionType":"Allow","operation":"Read","host":"*"}]}
    /kafka-acl-extended/prefixed/Topic/NAME   prefixed patterns, with the same content

A name is escaped as in every path of the registry. A node without ACLs is deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, TypeVar

from odradek.foundation.registry_errors import StoreError
from odradek.metadata.image import nodes, paths
from odradek.metadata.image.change_log import NodeChange
from odradek.security.authorization.acls import (
    SUPPORTED_OPERATIONS,
    AccessControlEntry,
    AclOperation,
    PatternType,
    PermissionType,
    ResourcePattern,
    word_of,
)

Word = TypeVar("Word", bound=IntEnum)

HOMES: Final = {PatternType.LITERAL: paths.ACLS, PatternType.PREFIXED: f"{paths.EXTENDED_ACLS}/prefixed"}
_TYPES: Final = {word_of(one): one for one in SUPPORTED_OPERATIONS}


def path_of(pattern: ResourcePattern) -> str:
    return f"{HOMES[pattern.pattern_type]}/{word_of(pattern.type)}/{paths.escape(pattern.name)}"


def parents_of(pattern: ResourcePattern) -> list[str]:
    """The paths above a pattern's node, the highest first."""
    steps = path_of(pattern).split("/")
    return ["/".join(steps[:count]) for count in range(2, len(steps))]


def pattern_at(path: str) -> ResourcePattern | None:
    """The pattern whose node is at `path`; None for another path."""
    for pattern_type, home in HOMES.items():
        steps = path.removeprefix(f"{home}/").split("/") if path.startswith(f"{home}/") else []
        if len(steps) == 2 and steps[0] in _TYPES:
            return ResourcePattern(_TYPES[steps[0]], paths.unescape(steps[1]), pattern_type)
    return None


def write_acls(entries: Sequence[AccessControlEntry]) -> bytes:
    return nodes.write_json(
        {
            "version": 1,
            "acls": [
                {
                    "principal": entry.principal,
                    "permissionType": word_of(entry.permission),
                    "operation": word_of(entry.operation),
                    "host": entry.host,
                }
                for entry in entries
            ],
        }
    )


def read_acls(change: NodeChange) -> tuple[AccessControlEntry, ...]:
    """The ACLs of a node; none for one that was deleted. Raises StoreError for what cannot be read."""
    if change.data is None:
        return ()
    try:
        return tuple(
            AccessControlEntry(
                str(one["principal"]),
                str(one["host"]),
                _of_word(AclOperation, one["operation"]),
                _of_word(PermissionType, one["permissionType"]),
            )
            for one in nodes.read_json(change.path, change.data)["acls"]
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(
            f"the registry's node {change.path} cannot be read: {error!r}; restore it from a backup"
        ) from error


def _of_word(kind: type[Word], word: str) -> Word:
    found = _WORDS[kind].get(word)
    if found is None:
        raise ValueError(f"{word!r} is no {kind.__name__}")
    return found  # type: ignore[return-value]


_WORDS: Final[dict[type[IntEnum], dict[str, IntEnum]]] = {
    kind: {word_of(one): one for one in kind} for kind in (AclOperation, PermissionType)
}
