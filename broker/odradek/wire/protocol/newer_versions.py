"""Versions of messages that kio does not have yet, declared as rows: what each changes in the version before it.

A version becomes a dataclass in the form of kio's when it is first used. What reads and writes kio's classes takes it
too. A row here is used even where a later kio has the version: so its fields have one name.

Source: the messages of Apache Kafka 4.4.0 (`common/message` in its jar of clients).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import MISSING
from datetime import timedelta
from functools import cache
from types import NoneType
from typing import Final, cast, get_args, get_origin
from uuid import UUID

from odradek.foundation.named_tuple import NamedTuple
from odradek.wire.protocol.api import ApiKey

_TYPES: Final[dict[str, type]] = {
    "string": str,
    "bool": bool,
    "int8": int,
    "int32": int,
    "int64": int,
    "timedelta_i32": timedelta,
    "uuid": UUID,
}


class NewField(NamedTuple):
    """A field that a structure has from this version on: after another, in its place, or last. No tagged field."""

    structure: str  # kio's name of the structure
    name: str
    wire_type: str
    is_nullable: bool = False
    default: object = MISSING
    replaces: str | None = None
    after: str | None = None


NEWER_VERSIONS: Final[Mapping[tuple[int, int], tuple[NewField, ...]]] = {
    # The cluster and the node that the client means to reach (KIP-1242).
    (ApiKey.API_VERSIONS, 5): (
        NewField("ApiVersionsRequest", "cluster_id", "string", is_nullable=True, default=None),
        NewField("ApiVersionsRequest", "node_id", "int32", default=-1),
    ),
    # Topics by their ids (KIP-1319). Kafka calls the generation "generation id or member epoch" from here on.
    (ApiKey.TXN_OFFSET_COMMIT, 6): (
        NewField("TxnOffsetCommitRequestTopic", "topic_id", "uuid", is_nullable=True, replaces="name"),
        NewField("TxnOffsetCommitResponseTopic", "topic_id", "uuid", is_nullable=True, replaces="name"),
    ),
    (ApiKey.DELETE_GROUPS, 3): (
        NewField("DeletableGroupResult", "error_message", "string", is_nullable=True, default=None),
    ),
    # KIP-1331 and KIP-1357. The lag is a long, and comes after the interval.
    (ApiKey.STREAMS_GROUP_HEARTBEAT, 1): (
        NewField(
            "StreamsGroupHeartbeatResponse",
            "task_offset_interval",
            "timedelta_i32",
            replaces="acceptable_recovery_lag",
        ),
        NewField(
            "StreamsGroupHeartbeatResponse",
            "acceptable_recovery_lag",
            "int64",
            default=-1,
            replaces="task_offset_interval",
        ),
        NewField(
            "StreamsGroupHeartbeatResponse",
            "topology_description_required",
            "bool",
            default=False,
            after="warmup_tasks",
        ),
    ),
    # Descriptions of topologies belong to plug-ins of Kafka's. A byte stands for the null that is in their place.
    (ApiKey.STREAMS_GROUP_DESCRIBE, 1): (
        NewField("StreamsGroupDescribeRequest", "include_topology_description", "bool", default=False),
        NewField("DescribedGroup", "topology_description", "int8", default=-1),
        NewField("DescribedGroup", "topology_description_status", "int8", default=0),
        NewField("DescribedGroup", "assignor_name", "string", is_nullable=True, default=None),
    ),
}


def newest_version_of(api_key: int) -> int:
    """The newest version that is declared here; -1 for an API without one."""
    return max((version for api, version in NEWER_VERSIONS if api == api_key), default=-1)


def derive_message(before: type, api_key: int, version: int) -> type:
    """The class of a version that is declared here, from that of the version `before` it."""
    return _derive(before, version, NEWER_VERSIONS[api_key, version])


@cache
def _derive(before: type, version: int, rows: tuple[NewField, ...]) -> type:
    own = [row for row in rows if row.structure == before.__name__]
    replaced = {row.replaces: row for row in own if row.replaces is not None}
    fields: list[_Row] = []
    for field in dataclasses.fields(before):
        row = replaced.get(field.name)
        fields.append(_keep(field, version, rows) if row is None else _declare(row))
        fields += [_declare(row) for row in own if row.after == field.name]
    fields += [_declare(row) for row in own if row.replaces is None and row.after is None]
    about = {name: value for name, value in vars(before).items() if name in _ABOUT}
    return dataclasses.make_dataclass(
        before.__name__,
        fields,
        namespace={**about, "__version__": version, "__module__": __name__},
        frozen=True,
        slots=True,
        kw_only=True,
    )


# What kio's classes say of themselves.
_ABOUT: Final = ("__type__", "__flexible__", "__api_key__", "__header_schema__")

_Row = tuple[str, object, object]


def _keep(field: dataclasses.Field[object], version: int, rows: tuple[NewField, ...]) -> _Row:
    """The field as it was; structures in it are those of the new version."""
    declared = _at_version(field.type, version, rows)
    return field.name, declared, dataclasses.field(metadata=field.metadata, default=field.default)


def _at_version(declared: object, version: int, rows: tuple[NewField, ...]) -> object:
    """A field's type: a structure, an array of them, or one of both that may be null."""
    if isinstance(declared, type) and dataclasses.is_dataclass(declared):
        return _derive(declared, version, rows)
    arguments = get_args(declared)
    if get_origin(declared) is tuple:
        return tuple[_at_version(arguments[0], version, rows), ...]  # type: ignore[misc]
    if len(arguments) == 2 and arguments[1] is NoneType:
        return cast(type, _at_version(arguments[0], version, rows)) | None
    return declared


def _declare(row: NewField) -> _Row:
    of_value = _TYPES[row.wire_type]
    declared = of_value | None if row.is_nullable else of_value
    return row.name, declared, dataclasses.field(metadata={"kafka_type": row.wire_type}, default=row.default)
