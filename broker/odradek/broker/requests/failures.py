"""The error answer to any request, in the shape that its client expects: each requested element, with the error.

It is built from the schemas. Every field for an error code takes the error. An array of elements with such a field gets
one element for each that the request names. So a handler that fails as a whole builds no answer itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final, Protocol

from odradek.wire.protocol import messages
from odradek.wire.protocol.errors import error_code, error_message
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.schema import RESPONSE, FieldSchema, Structure, fields_of, message_class

# AddPartitionsToTxn alone has a name of its own for it.
_CODES: Final = frozenset(("error_code", "partition_error_code"))
# The array of the request that an array of the answer corresponds to, where their names differ.
_SOURCES: Final[dict[str, tuple[str, ...]]] = {
    "responses": ("topics", "resources"),
    "results": ("resources", "topics", "groups_names", "upsertions", "creations", "dirs"),
    "filter_results": ("filters",),
    "groups": ("groups", "group_ids"),
    "coordinators": ("coordinator_keys",),
    "partitions": ("partitions", "partition_indexes"),
    "replica_election_results": ("topic_partitions",),
    "partition_result": ("partitions",),
    "results_by_topic_v3_and_below": ("v3_and_below_topics",),
    "results_by_transaction": ("transactions",),
    "results_by_partition": ("partitions",),
    "topic_results": ("topics",),
    "transaction_states": ("transactional_ids",),
}
# The field that identifies an element, and the names that it may have in the request.
_IDENTITIES: Final[dict[str, tuple[str, ...]]] = {
    "name": ("name", "topic"),
    "topic": ("topic", "name"),
    "topic_name": ("name", "topic_name"),
    "topic_id": ("topic_id",),
    "partition_index": ("partition_index", "partition"),
    "partition": ("partition", "partition_index"),
    "partition_id": ("partition_id",),
    "group_id": ("group_id",),
    "transactional_id": ("transactional_id",),
    "key": ("key",),
    "resource_type": ("resource_type",),
    "resource_name": ("resource_name",),
    "user": ("name",),
    "member_id": ("member_id",),
    "group_instance_id": ("group_instance_id",),
}
# The times of a delegation token that was not made.
_TIMES: Final = frozenset(("issue_timestamp", "expiry_timestamp", "max_timestamp"))
# The entities of quotas are named by an array.
_NAMES: Final = _IDENTITIES.keys() | {"entity"}


def error_fields(error: BaseException | None) -> dict[str, object]:
    """The fields of most answers for `error`: its number and its text."""
    return {"error_code": error_code(error), "error_message": error_message(error)}


class _Partition(Protocol):
    """A partition as requests about offsets name it."""

    partition_index: int


class _Topic(Protocol):
    """Partitions of a topic."""

    name: str

    @property
    def partitions(self) -> Iterable[_Partition]: ...


def partition_codes(
    topics: Iterable[_Topic], codes: Mapping[tuple[str, int], int], *, otherwise: int
) -> list[dict[str, object]]:
    """The topics of an answer that has an error for each partition asked for: that of `codes`, or else `otherwise`."""
    return [
        {
            "name": topic.name,
            "partitions": [
                {
                    "partition_index": one.partition_index,
                    "error_code": codes.get((topic.name, one.partition_index), otherwise),
                }
                for one in topic.partitions
            ],
        }
        for topic in topics
    ]


def answer(api_key: int, version: int, request: object, error: BaseException) -> Message | None:
    """The answer to `request` with `error`, or None when the API's answers have no field for an error."""
    return answer_with(api_key, version, request, error_code(error), error_message(error))


def answer_with(
    api_key: int, version: int, request: object, code: int, message: str | None
) -> Message | None:
    """As `answer`, for an error given by its number."""
    structure = message_class(api_key, version, RESPONSE)
    if not _has_error_code(structure):
        return None
    fields = _fields(structure, request, code, message)
    return messages.response(api_key, version, **fields)


@cache
def _has_error_code(structure: Structure) -> bool:
    return any(
        field.name in _CODES or (field.structure is not None and _has_error_code(field.structure))
        for field in fields_of(structure)
    )


def _fields(structure: Structure, request: object, code: int, message: str | None) -> dict[str, object]:
    fields: dict[str, object] = {}
    for field in fields_of(structure):
        if field.name in _CODES:
            fields[field.name] = code
        elif field.name == "entity" and hasattr(request, "entity"):
            fields["entity"] = [
                {"entity_type": one.entity_type, "entity_name": one.entity_name} for one in request.entity
            ]
        elif field.name == "error_message":
            fields["error_message"] = message
        elif field.name in _TIMES and any(one.name == "max_timestamp" for one in fields_of(structure)):
            fields[field.name] = -1
        elif field.is_array and field.structure is not None and _has_error_code(field.structure):
            fields[field.name] = _elements(field, request, code, message)
        elif field.name in _IDENTITIES:
            value = _identity(field.name, request)
            if value is not None:
                fields[field.name] = value
    return fields


def _elements(field: FieldSchema, request: object, code: int, message: str | None) -> list[object]:
    for name in _SOURCES.get(field.name, (field.name,)):
        asked = getattr(request, name, None)
        if isinstance(asked, tuple | list):
            if name == "upsertions":
                # AlterUserScramCredentials names users in two arrays.
                asked = (*asked, *getattr(request, "deletions", ()))
            elif name == "dirs":
                # AlterReplicaLogDirs names topics by directory, and its answer does not.
                asked = [topic for directory in asked for topic in directory.topics]
            break
    else:
        return []
    # Without a name, the order alone shows which element of the request each answers.
    is_named = not _NAMES.isdisjoint(one.name for one in fields_of(field.structure))
    build = messages.structure_builder(field.structure)
    elements: list[object] = []
    for element in asked:
        fields = _fields(field.structure, element, code, message)
        if not is_named or not _NAMES.isdisjoint(fields):
            elements.append(build(fields))
    return elements


def _identity(name: str, element: object) -> object:
    if isinstance(element, str | int):
        return element
    for candidate in _IDENTITIES[name]:
        value = getattr(element, candidate, None)
        if value is not None:
            return value
    return None
