"""Checks of topics' APIs that are more than one right on one name."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, cast

from odradek.broker.requests import metadata as metadata_handler
from odradek.broker.requests.config_resources import ConfigResourceType, RequestedResource
from odradek.broker.requests.context import AnyContext, RequestContext
from odradek.broker.requests.failures import error_fields
from odradek.broker.requests.loading import Answer, Handle
from odradek.broker.requests.parts import MetadataParts
from odradek.broker.requests.rights.rights import Rights, error_for
from odradek.broker.requests.rights.rules import (
    AnyCheck,
    ElementNeed,
    change_answer,
    each,
    join_denied,
    on_topic,
    replace,
)
from odradek.foundation.errors import InvalidRequest, RequestError
from odradek.foundation.ids import TopicId
from odradek.foundation.turn_limits import REQUEST_ELEMENTS_PER_TURN_MAX
from odradek.foundation.turns import Turn
from odradek.network.pending import Pending
from odradek.security.authorization.acls import AclOperation, AclResourceType
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.messages import Message

if TYPE_CHECKING:
    from odradek.wire.protocol.requests.cluster import (
        CreatableTopic,
        CreateTopicsRequest,
        DeleteTopicsRequest,
        DeleteTopicState,
        DescribeTopicPartitionsRequest,
        MetadataRequest,
    )
    from odradek.wire.protocol.responses.cluster import CreatableTopicResult, CreateTopicsResponse

_TOPIC: Final = AclResourceType.TOPIC
_CLUSTER: Final = AclResourceType.CLUSTER
_TOPIC_DENIED: Final = error_code(error_for(_TOPIC))
_FIRST_WITH_TOPIC_IDS: Final = 6
_FIRST_WITH_DETAILS: Final = 5
# The resources that have settings, and whose rights decide on them.
_CONFIG_RESOURCES: Final[dict[int, AclResourceType]] = {
    ConfigResourceType.TOPIC: AclResourceType.TOPIC,
    ConfigResourceType.GROUP: AclResourceType.GROUP,
    ConfigResourceType.BROKER: AclResourceType.CLUSTER,
    ConfigResourceType.BROKER_LOGGER: AclResourceType.CLUSTER,
    ConfigResourceType.CLIENT_METRICS: AclResourceType.CLUSTER,
}


class _MetadataRights:
    """The topics that one Metadata request may show and create."""

    def __init__(self, rights: Rights, *, is_all: bool) -> None:
        self._rights = rights
        self._is_all = is_all

    def may_describe(self, name: str) -> bool:
        if self._is_all:
            return self._rights.could(AclOperation.DESCRIBE, _TOPIC, name)
        return self._rights.may(AclOperation.DESCRIBE, _TOPIC, name)

    def may_create(self, name: str) -> bool:
        return self._rights.may_instead(AclOperation.CREATE, _CLUSTER) or self._rights.may(
            AclOperation.CREATE, _TOPIC, name
        )


def metadata(
    handle: Handle, request: MetadataRequest, context: RequestContext[MetadataParts], rights: Rights
) -> Answer:
    """Describe of each topic; to create one, Create of it or on the cluster. Brokers are shown to all."""
    is_all = request.topics is None or (context.header.api_version == 0 and not request.topics)
    return cast(Answer, metadata_handler.handle(request, context, _MetadataRights(rights, is_all=is_all)))


def describe_partitions(
    handle: Handle, request: DescribeTopicPartitionsRequest, context: AnyContext, rights: Rights
) -> Answer:
    """Describe of each topic. Of all topics, hidden ones are absent."""
    if request.topics:
        return _DESCRIBED(handle, request, context, rights)
    names = [
        name
        for name in context.broker.images.current.topics
        if rights.could(AclOperation.DESCRIBE, _TOPIC, name)
    ]
    if not names:
        return context.response(topics=[])
    if len(names) == len(context.broker.images.current.topics):
        return handle(request, context)
    return handle(replace(request, topics=tuple(_Named(name) for name in names)), context)


class _Named:
    """A topic as a request names it."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


_DESCRIBED: Final[AnyCheck[DescribeTopicPartitionsRequest]] = each("topics", on_topic(AclOperation.DESCRIBE))


def create(handle: Handle, request: CreateTopicsRequest, context: AnyContext, rights: Rights) -> Answer:
    """Create on the cluster, or of each topic. Settings are answered with DescribeConfigs of the topic."""

    answer = _CREATED(handle, request, context, rights)
    if context.header.api_version < _FIRST_WITH_DETAILS:
        return answer
    if len(request.topics) > REQUEST_ELEMENTS_PER_TURN_MAX:
        return Pending(_without_configs_in_turns(answer, rights))

    def without_configs(ready: CreateTopicsResponse) -> Message:
        return replace(ready, topics=tuple([_without_configs(topic, rights) for topic in ready.topics]))

    return change_answer(answer, without_configs)


async def _without_configs_in_turns(answer: Answer, rights: Rights) -> Message:
    ready = cast("CreateTopicsResponse", await answer if isinstance(answer, Pending) else answer)
    turn = Turn()
    topics = []
    for topic in ready.topics:
        if turn.is_over():
            await turn.next()
        topics.append(_without_configs(topic, rights))
    return replace(ready, topics=tuple(topics))


def _without_configs(topic: CreatableTopicResult, rights: Rights) -> CreatableTopicResult:
    """The topic without its settings, where the client may not see them."""
    if topic.error_code or rights.could(AclOperation.DESCRIBE_CONFIGS, _TOPIC, topic.name):
        return topic
    return replace(
        topic, topic_config_error_code=_TOPIC_DENIED, num_partitions=-1, replication_factor=-1, configs=()
    )


def _create(request: CreateTopicsRequest, topic: CreatableTopic, rights: Rights) -> RequestError | None:
    if rights.may_instead(AclOperation.CREATE, _CLUSTER):
        return None
    return rights.refusal(AclOperation.CREATE, _TOPIC, topic.name)


_CREATED: Final = each("topics", _create, num_partitions=-1, replication_factor=-1)


def delete(handle: Handle, request: DeleteTopicsRequest, context: AnyContext, rights: Rights) -> Answer:
    """Delete on the cluster, or of each topic; by name Describe too.

    As in Kafka, a client without Describe cannot see whether a name exists. With it, a missing topic is unknown and
    not denied. Without Describe, an id has no name in the answer.
    """
    if rights.may_instead(AclOperation.DELETE, _CLUSTER):
        return handle(request, context)
    version = context.header.api_version
    field = "topics" if version >= _FIRST_WITH_TOPIC_IDS else "topic_names"
    image = context.broker.images.current
    counts = Counter(map(_read_topic, getattr(request, field)))
    allowed: list[str | DeleteTopicState] = []
    denied: list[dict[str, object]] = []
    error = error_for(_TOPIC)
    for asked in getattr(request, field):
        name, topic_id = _read_topic(asked)
        found = image.topics_by_id.get(topic_id) if topic_id is not None else None
        known = name if name is not None else None if found is None else found.name
        is_mistake = known is None or (name is not None and topic_id is not None)
        if is_mistake or counts[name, topic_id] > 1 or (name, topic_id) in context.named_twice:
            allowed.append(asked)  # An unknown id, or a mistake: the handler answers so.
            continue
        assert known is not None
        describes = rights.could(AclOperation.DESCRIBE, _TOPIC, known)
        deletes = rights.may(AclOperation.DELETE, _TOPIC, known)
        is_missing = known not in image.topics
        if (deletes or is_missing) and (describes or name is None):
            allowed.append(asked)  # The handler answers for a missing topic.
            continue
        denied.append({"name": known if describes else name, "topic_id": topic_id, **error_fields(error)})
    if not denied:
        return handle(request, context)
    answer = context.response(responses=denied)
    return (
        join_denied(handle(replace(request, **{field: tuple(allowed)}), context), answer)
        if allowed
        else answer
    )


def _read_topic(asked: str | DeleteTopicState) -> tuple[str | None, TopicId | None]:
    """The name and the id of a topic as a request has them, by its version."""
    return (asked, None) if isinstance(asked, str) else (asked.name, asked.topic_id)


def on_config_resource(operation: AclOperation) -> ElementNeed[object, RequestedResource]:
    """The operation on the resource whose settings an element is about."""

    def need(request: object, resource: RequestedResource, rights: Rights) -> RequestError | None:
        resource_type = _CONFIG_RESOURCES.get(resource.resource_type)
        if resource_type is None:
            return InvalidRequest(f"Unexpected resource type {resource.resource_type}.")
        if resource_type is _CLUSTER:
            return rights.refusal(operation, _CLUSTER)
        return rights.refusal(operation, resource_type, resource.resource_name)

    return need
