"""How groups whose members have records of their own store them: consumer groups and Streams groups.

A key has the group, and in some kinds a name within it. Values are flexible since their first version, as all that
Kafka added since 4.0.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any, Final

from odradek.broker.coordination.records import RecordKey, RecordValue
from odradek.foundation.named_tuple import NamedTuple
from odradek.wire.protocol.declared import Declaration, FieldRow

_GROUP_ID: Final = FieldRow("group_id", "string")
_NAME: Final = FieldRow("name", "string")


class GroupRecordKey(NamedTuple):
    """Names a record of a group. `name` is a member id or a pattern, empty where the kind has none."""

    kind: int
    group_id: str
    name: str = ""


def declare_keys(
    kinds: Iterable[int], kinds_with_name: Collection[int]
) -> Mapping[int, RecordKey[GroupRecordKey]]:
    """The keys by kind."""
    return {
        kind: RecordKey(
            kind,
            Declaration(
                partial(GroupRecordKey, kind),
                *((_GROUP_ID, _NAME) if kind in kinds_with_name else (_GROUP_ID,)),
            ),
        )
        for kind in kinds
    }


def declare_values(what: str, declarations: Mapping[int, Declaration]) -> Mapping[int, RecordValue[Any]]:
    """The values by kind; `what` is the kind of group, for errors."""
    return {
        kind: RecordValue(
            f"a {what} record of kind {kind}",
            declaration,
            version_written=0,
            version_max=0,
            flexible_since=0,
        )
        for kind, declaration in declarations.items()
    }
