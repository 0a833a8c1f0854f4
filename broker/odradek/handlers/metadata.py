"""Metadata: which brokers there are, which topics, and who leads their partitions.

Topics that are not there are made when the request and auto.create.topics.enable allow it; since this broker is its own
controller the answer has them already, where Kafka's first answer is an error that clients try again after.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, Final

from odradek.cluster.image import ClusterImage, TopicImage
from odradek.cluster.topic_names import is_internal_topic, validate_topic_name
from odradek.foundation.errors import (
    InvalidRequest,
    InvalidTopic,
    RequestError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from odradek.handlers import change_log
from odradek.handlers.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from odradek.handlers.context import RequestContext
from odradek.handlers.errors import error_code
from odradek.handlers.metadata_pieces import MetadataPieces
from odradek.handlers.partition_metadata import broker_addresses, controller_for_clients
from odradek.protocol.api import ApiKey

API: Final = ApiKey.METADATA
VERSIONS: Final = (0, 13)

# From this version on a topic may be asked for by its id.
_TOPIC_IDS_VERSION: Final = 12

_pieces: Final = MetadataPieces()


def handle(request: Any, context: RequestContext) -> bytes | Awaitable[bytes]:
    version = context.header.api_version
    image = context.broker.images.current
    if request.topics is None or (version == 0 and not request.topics):
        return _answer(request, context, list(image.topics.values()), [])
    names, ids = _asked(request, version)
    # As in Kafka, one topic id makes it a request by id; names beside it are not looked at.
    if ids:
        found = [image.topics_by_id[topic_id] for topic_id in ids if topic_id in image.topics_by_id]
        unknown = [topic_id for topic_id in ids if topic_id not in image.topics_by_id]
        failed = [
            _failure(None, UnknownTopicId(), topic_id=topic_id, request=request) for topic_id in unknown
        ]
        return _answer(request, context, found, failed)
    missing = [name for name in names if name not in image.topics]
    if missing and _may_create(request, context):
        return _create_and_answer(request, context, names)
    found = [image.topics[name] for name in names if name in image.topics]
    failed = [_failure(name, _reason(name), request=request) for name in missing]
    return _answer(request, context, found, failed)


def _asked(request: Any, version: int) -> tuple[list[str], list[Any]]:
    """Names and ids without repetitions. Raises InvalidRequest for what the version does not allow."""
    names: dict[str, None] = {}
    ids: dict[Any, None] = {}
    for topic in request.topics:
        topic_id = getattr(topic, "topic_id", None)
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


def _may_create(request: Any, context: RequestContext) -> bool:
    is_allowed: bool = getattr(request, "allow_auto_topic_creation", True)
    return is_allowed and bool(context.broker.settings.auto_create_topics_enable)


async def _create_and_answer(request: Any, context: RequestContext, names: Sequence[str]) -> bytes:
    there = context.broker.images.current.topics
    outcomes = await context.broker.controller.ensure_topics(names)
    for name, outcome in zip(names, outcomes, strict=True):
        if isinstance(outcome, TopicImage) and name not in there:
            change_log.topic_made_by_asking(context, name, partitions=len(outcome.partitions))
    found = [outcome for outcome in outcomes if isinstance(outcome, TopicImage)]
    failed = [
        _failure(name, outcome, request=request)
        for name, outcome in zip(names, outcomes, strict=True)
        if isinstance(outcome, RequestError)
    ]
    return _answer(request, context, found, failed)


def _reason(name: str) -> RequestError:
    try:
        validate_topic_name(name)
    except InvalidTopic as error:
        return error
    return UnknownTopicOrPartition()


def _failure(name: str | None, error: RequestError, *, request: Any, topic_id: Any = None) -> dict[str, Any]:
    return {
        "error_code": error_code(error),
        "name": name,
        "topic_id": topic_id,
        "is_internal": name is not None and is_internal_topic(name),
        "partitions": [],
        "topic_authorized_operations": _operations(
            request, "include_topic_authorized_operations", TOPIC_OPERATIONS
        ),
    }


def _operations(request: Any, flag: str, operations: int) -> int:
    return operations if getattr(request, flag, False) else NOT_ASKED


def _answer(
    request: Any, context: RequestContext, found: Sequence[TopicImage], failed: Sequence[dict[str, Any]]
) -> bytes:
    image: ClusterImage = context.broker.images.current
    listener_name = context.listener_name
    return _pieces.frame(
        context.header.api_version,
        context.header.correlation_id,
        image=image,
        listener_name=listener_name,
        topics=found,
        failed=failed,
        topic_operations=_operations(request, "include_topic_authorized_operations", TOPIC_OPERATIONS),
        fields={
            "brokers": [
                {"node_id": broker_id, "host": host, "port": port, "rack": rack}
                for broker_id, host, port, rack in broker_addresses(image, listener_name)
            ],
            "cluster_id": image.cluster_id,
            "controller_id": controller_for_clients(image),
            "cluster_authorized_operations": _operations(
                request, "include_cluster_authorized_operations", CLUSTER_OPERATIONS
            ),
        },
    )
