"""Every message of every version, and strategies that make examples of them."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.reading import EPOCH
from odradek.wire.protocol.schema import (
    REQUEST,
    RESPONSE,
    STRUCTURE,
    FieldSchema,
    fields_of,
    message_class,
    versions_of,
)

# Kafka 4 removed them, and no schema is left.
WITHOUT_SCHEMA = {
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
}
API_KEYS = [api_key for api_key in ApiKey if api_key not in WITHOUT_SCHEMA]
MESSAGES = [(api_key, kind) for api_key in API_KEYS for kind in (REQUEST, RESPONSE)]


def classes(api_key: ApiKey, kind: str) -> list[tuple[int, Any]]:
    return [(version, message_class(api_key, version, kind)) for version in versions_of(api_key)]


def integers(bits: int, *, is_signed: bool = True) -> st.SearchStrategy[int]:
    if is_signed:
        return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)
    return st.integers(0, (1 << bits) - 1)


PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": integers(8),
    "int16": integers(16),
    "int32": integers(32),
    "int64": integers(64),
    "uint8": integers(8, is_signed=False),
    "uint16": integers(16, is_signed=False),
    "uint32": integers(32, is_signed=False),
    "uint64": integers(64, is_signed=False),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "string": st.text(st.characters(codec="utf-8"), max_size=200),
    "bytes": st.binary(max_size=200),
    "records": st.binary(max_size=200),
    "uuid": st.none() | st.uuids().filter(lambda value: value != uuid.UUID(int=0)),
    "timedelta_i32": integers(32).map(lambda value: timedelta(milliseconds=value)),
    "timedelta_i64": st.integers(-(1 << 45), 1 << 45).map(lambda value: timedelta(milliseconds=value)),
    # Up to the year 2109: beyond, kio's reader rounds.
    "datetime_i64": st.integers(0, 1 << 42).map(lambda value: EPOCH + timedelta(milliseconds=value)),
}


def error_codes() -> st.SearchStrategy[Any]:
    from kio.schema.errors import ErrorCode

    return st.sampled_from(list(ErrorCode))


def values(field: FieldSchema) -> st.SearchStrategy[Any]:
    strategy: st.SearchStrategy[Any]
    if field.wire_type == STRUCTURE:
        strategy = messages(field.structure)
    elif field.wire_type == "error_code":
        strategy = error_codes()
    else:
        strategy = PRIMITIVES[field.wire_type]
    if field.is_array:
        strategy = st.lists(strategy, max_size=3).map(tuple)
    if field.is_nullable and field.tag is None:
        strategy = st.none() | strategy
    return strategy


def messages(structure: Any) -> st.SearchStrategy[Any]:
    return st.builds(structure, **{field.name: values(field) for field in fields_of(structure)})
