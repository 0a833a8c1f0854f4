"""Metadata: the brokers, the topics, and the leaders of their partitions.

Unknown topics are created when the request and auto.create.topics.enable allow it. The answer waits for the creation
and has the topics already. Kafka's first answer is an error, after which clients retry.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol, TypeVar
from uuid import UUID

from odradek.broker.requests import change_log
from odradek.broker.requests.authorized_operations import NOT_ASKED, TOPIC_OPERATIONS, of_cluster, of_topic
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.encoded_topics import EncodedTopics, whole
from odradek.broker.requests.partition_metadata import broker_addresses, controller_for_clients
from odradek.broker.requests.parts import MetadataParts
from odradek.foundation.error_values import without_trace
from odradek.foundation.errors import (
    InvalidRequest,
    InvalidTopic,
    RequestError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from odradek.foundation.loop_turns import next_turn
from odradek.foundation.security_errors import TopicAuthorizationFailed
from odradek.foundation.turn_limits import REQUEST_ELEMENTS_PER_TURN_MAX
from odradek.metadata.image.image import ClusterImage, TopicImage
from odradek.metadata.image.topic_names import is_internal_topic, validate_topic_name
from odradek.network.pending import Pending
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.requests.cluster import MetadataRequest, MetadataRequestTopic

# From this version on a topic may be asked for by its id.
_TOPIC_IDS_VERSION: Final = 12

_encoded_topics: Final = EncodedTopics()

Element = TypeVar("Element")
# Topics to show, and the fields of those with an error.
SortedOut = tuple[Sequence[TopicImage], list[dict[str, object]]]


class MetadataRights(Protocol):
    """The topics that a client may see and create, where there is an authorizer."""

    def may_describe(self, name: str) -> bool: ...

    def may_create(self, name: str) -> bool: ...


def handle(
    request: MetadataRequest, context: RequestContext[MetadataParts], rights: MetadataRights | None = None
) -> bytes | Pending[bytes]:
    version = context.header.api_version
    image = context.broker.images.current
    is_all = request.topics is None or (version == 0 and not request.topics)
    if len(image.topics if is_all else request.topics or ()) > REQUEST_ELEMENTS_PER_TURN_MAX:
        return Pending(_answer_in_parts(request, context, rights, is_all=is_all))
    if is_all:
        topics = list(image.topics.values())
        if rights is not None:
            topics = [topic for topic in topics if rights.may_describe(topic.name)]
        return _answer_soon(request, context, topics, [])
    names, ids = _read_topics(request.topics or (), version)
    if not ids:
        sorted_out = _by_name(request, context, names, rights)
        if isinstance(sorted_out, Awaitable):
            return Pending(_answer_later(request, context, sorted_out))
        return _answer_soon(request, context, *sorted_out)
    return _answer_soon(request, context, *_by_id(request, context, ids, rights))


async def _answer_in_parts(
    request: MetadataRequest,
    context: RequestContext[MetadataParts],
    rights: MetadataRights | None,
    *,
    is_all: bool,
) -> bytes:
    """The answer for many topics, some of them in each turn of the loop. Topics that are named twice come once."""
    image = context.broker.images.current
    encoded: list[bytes] = []
    if is_all:
        for topics in _parts(tuple(image.topics.values())):
            if rights is not None:
                topics = [topic for topic in topics if rights.may_describe(topic.name)]
            await _keep_encoded(request, context, topics)
            encoded += _encode_answer(request, context, topics, [])
            await next_turn()
    else:
        seen: set[str | UUID] = set()
        is_by_id = False
        for part in _parts(request.topics or ()):
            is_by_id = is_by_id or any(topic.topic_id is not None and topic.topic_id.int for topic in part)
            await next_turn()
        for part in _parts(request.topics or ()):
            names, ids = _read_topics(part, context.header.api_version)
            if is_by_id:
                ids = [one for one in ids if one not in seen]
                seen.update(ids)
                found, failed = _by_id(request, context, ids, rights)
            else:
                names = [one for one in names if one not in seen]
                seen.update(names)
                sorted_out = _by_name(request, context, names, rights)
                found, failed = await sorted_out if isinstance(sorted_out, Awaitable) else sorted_out
            await _keep_encoded(request, context, found)
            encoded += _encode_answer(request, context, found, failed)
            await next_turn()
    header = context.header
    fields = _fields(request, context)
    return await context.broker.long_work.submit(
        lambda: whole(header.api_version, header.correlation_id, encoded, fields)
    )


def _parts(elements: Sequence[Element]) -> Iterator[Sequence[Element]]:
    for start in range(0, len(elements), REQUEST_ELEMENTS_PER_TURN_MAX):
        yield elements[start : start + REQUEST_ELEMENTS_PER_TURN_MAX]


async def _answer_later(
    request: MetadataRequest, context: RequestContext[MetadataParts], later: Awaitable[SortedOut]
) -> bytes:
    found, failed = await later
    await _keep_encoded(request, context, found)
    return _answer(request, context, found, failed)


def _answer_soon(
    request: MetadataRequest,
    context: RequestContext[MetadataParts],
    found: Sequence[TopicImage],
    failed: Sequence[dict[str, object]],
) -> bytes | Pending[bytes]:
    """The answer; later where its topics have too many partitions that are not encoded yet."""
    if _unmade(request, context, found) is None:
        return _answer(request, context, found, failed)
    return Pending(_answer_encoded(request, context, found, failed))


async def _answer_encoded(
    request: MetadataRequest,
    context: RequestContext[MetadataParts],
    found: Sequence[TopicImage],
    failed: Sequence[dict[str, object]],
) -> bytes:
    await _keep_encoded(request, context, found)
    return _answer(request, context, found, failed)


async def _keep_encoded(
    request: MetadataRequest, context: RequestContext[MetadataParts], found: Sequence[TopicImage]
) -> None:
    """Encode the topics in the thread if they have many partitions."""
    unmade = _unmade(request, context, found)
    if unmade is not None:
        await context.broker.long_work.submit(unmade)


def _unmade(
    request: MetadataRequest, context: RequestContext[MetadataParts], found: Sequence[TopicImage]
) -> Callable[[], None] | None:
    return _encoded_topics.unmade(
        context.header.api_version,
        image=context.broker.images.current,
        listener_name=context.listener_name,
        topics=found,
        topic_operations=_every_operation(request),
    )


def _by_id(
    request: MetadataRequest,
    context: RequestContext[MetadataParts],
    ids: Sequence[UUID],
    rights: MetadataRights | None,
) -> SortedOut:
    """The topics that are found and may be seen, and the fields of the others."""
    image = context.broker.images.current
    found = [image.topics_by_id[topic_id] for topic_id in ids if topic_id in image.topics_by_id]
    failed = [
        _failure(None, UnknownTopicId(), topic_id=topic_id, operations=_every_operation(request))
        for topic_id in ids
        if topic_id not in image.topics_by_id
    ]
    if rights is not None:
        asked, found = found, []
        for topic in asked:
            if rights.may_describe(topic.name):
                found.append(topic)
            else:
                failed.append(_failure(None, TopicAuthorizationFailed(), topic_id=topic.id))
    return found, failed


def _by_name(
    request: MetadataRequest,
    context: RequestContext[MetadataParts],
    names: list[str],
    rights: MetadataRights | None,
) -> SortedOut | Awaitable[SortedOut]:
    """As `_by_id`; later where topics are made."""
    image = context.broker.images.current
    denied: dict[str, None] = {}
    if rights is not None:
        denied = dict.fromkeys(name for name in names if not rights.may_describe(name))
        names = [name for name in names if name not in denied]
    missing = [name for name in names if name not in image.topics]
    may_create = request.allow_auto_topic_creation and context.broker.settings.auto_create_topics_enable
    if missing and may_create:
        if rights is not None:
            denied |= dict.fromkeys(name for name in missing if not rights.may_create(name))
            names = [name for name in names if name not in denied]
        return _create_missing(request, context, names, denied)
    found = [image.topics[name] for name in names if name in image.topics]
    failed = [_missing(request, context, name, _reason(name)) for name in missing]
    return found, [*_denials(denied), *failed]


def _denials(names: Iterable[str]) -> list[dict[str, object]]:
    """As in Kafka, the operations of a denied topic are not said."""
    return [_failure(name, TopicAuthorizationFailed()) for name in names]


def _missing(
    request: MetadataRequest, context: RequestContext[MetadataParts], name: str, error: RequestError
) -> dict[str, object]:
    operations = of_topic(context, name, is_asked=request.include_topic_authorized_operations)
    return _failure(name, error, operations=operations)


def _read_topics(topics: Iterable[MetadataRequestTopic], version: int) -> tuple[list[str], list[UUID]]:
    """Names and ids without repetitions. Raises InvalidRequest for what the version does not allow."""
    names: dict[str, None] = {}
    ids: dict[UUID, None] = {}
    for topic in topics:
        topic_id = topic.topic_id
        if version < _TOPIC_IDS_VERSION:
            if topic.name is None:
                raise InvalidRequest(f"Topic name can not be null for version {version}")
            if topic_id is not None and topic_id.int:
                raise InvalidRequest(f"Topic IDs are not supported in requests for version {version}")
        if topic_id is not None and topic_id.int:
            ids[topic_id] = None
        elif topic.name is not None:
            names[topic.name] = None
    return list(names), list(ids)


async def _create_missing(
    request: MetadataRequest,
    context: RequestContext[MetadataParts],
    names: Sequence[str],
    denied: Iterable[str],
) -> SortedOut:
    there = context.broker.images.current.topics
    outcomes = await context.broker.controller.ensure_topics(names)
    for name, outcome in zip(names, outcomes, strict=True):
        if isinstance(outcome, TopicImage) and name not in there:
            change_log.log_auto_created_topic(context, name, partitions=len(outcome.partitions))
    found = [outcome for outcome in outcomes if isinstance(outcome, TopicImage)]
    failed = [
        _missing(request, context, name, outcome)
        for name, outcome in zip(names, outcomes, strict=True)
        if isinstance(outcome, RequestError)
    ]
    return found, [*_denials(denied), *failed]


def _reason(name: str) -> RequestError:
    try:
        validate_topic_name(name)
    except InvalidTopic as error:
        return without_trace(error)
    return UnknownTopicOrPartition()


def _failure(
    name: str | None, error: RequestError, *, topic_id: UUID | None = None, operations: int = NOT_ASKED
) -> dict[str, object]:
    return {
        "error_code": error_code(error),
        "name": name,
        "topic_id": topic_id,
        "is_internal": name is not None and is_internal_topic(name),
        "partitions": [],
        "topic_authorized_operations": operations,
    }


def _every_operation(request: MetadataRequest) -> int:
    return TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED


def _answer(
    request: MetadataRequest,
    context: RequestContext[MetadataParts],
    found: Sequence[TopicImage],
    failed: Sequence[dict[str, object]],
) -> bytes:
    header = context.header
    encoded = _encode_answer(request, context, found, failed)
    return whole(header.api_version, header.correlation_id, encoded, _fields(request, context))


def _encode_answer(
    request: MetadataRequest,
    context: RequestContext[MetadataParts],
    found: Sequence[TopicImage],
    failed: Sequence[dict[str, object]],
) -> list[bytes]:
    return _encoded_topics.part(
        context.header.api_version,
        image=context.broker.images.current,
        listener_name=context.listener_name,
        topics=found,
        failed=failed,
        topic_operations=_every_operation(request),
        operations_of=(
            None
            if context.broker.authorizer is None or not request.include_topic_authorized_operations
            else lambda name: of_topic(context, name)
        ),
    )


def _fields(request: MetadataRequest, context: RequestContext[MetadataParts]) -> dict[str, object]:
    """The fields of an answer besides its topics."""
    image: ClusterImage = context.broker.images.current
    return {
        "brokers": [
            {"node_id": broker_id, "host": host, "port": port, "rack": rack}
            for broker_id, host, port, rack in broker_addresses(image.brokers, context.listener_name)
        ],
        "cluster_id": image.cluster_id,
        "controller_id": controller_for_clients(image),
        "cluster_authorized_operations": of_cluster(
            context, is_asked=request.include_cluster_authorized_operations
        ),
    }
