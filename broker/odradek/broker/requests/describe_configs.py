"""DescribeConfigs: every setting of topics, brokers, groups and loggers, with its source."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.broker.requests.config_resources import ConfigResourceType, check_own_broker, policy_of
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.parts import ConfigParts
from odradek.foundation.compaction import compaction_warning
from odradek.foundation.error_values import without_trace
from odradek.foundation.errors import InvalidRequest, RequestError, UnknownTopicOrPartition
from odradek.foundation.log_levels import logger_levels
from odradek.foundation.settings.declaration import Kind
from odradek.metadata.image.config_description import (
    BrokerSources,
    DescribedConfig,
    DescribedConfigSource,
    describe_broker,
    describe_broker_default,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from odradek.metadata.image.image import ResourceKind
from odradek.metadata.image.topic_names import is_internal_topic, validate_topic_name
from odradek.wire.protocol.errors import error_code, error_message
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.cluster import DescribeConfigsRequest, DescribeConfigsResource


def handle(request: DescribeConfigsRequest, context: RequestContext[ConfigParts]) -> Message:
    sources = BrokerSources(context.broker.settings, context.broker.images.current)
    with_docs = request.include_documentation
    results = [
        _result(resource, sources, context, with_synonyms=request.include_synonyms, with_docs=with_docs)
        for resource in request.resources
    ]
    return context.response(results=results)


def _result(
    resource: DescribeConfigsResource,
    sources: BrokerSources,
    context: RequestContext[ConfigParts],
    *,
    with_synonyms: bool,
    with_docs: bool,
) -> dict[str, object]:
    failure: RequestError | None = None
    entries: list[DescribedConfig] = []
    try:
        entries = _describe(resource, sources, context)
    except RequestError as error:
        failure = without_trace(error)
    return {
        "error_code": error_code(failure),
        "error_message": error_message(failure) or _warning(resource, entries, sources, context) or "",
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
        "configs": [_fields(entry, with_synonyms=with_synonyms, with_docs=with_docs) for entry in entries],
    }


def _warning(
    resource: DescribeConfigsResource,
    entries: Iterable[DescribedConfig],
    sources: BrokerSources,
    context: RequestContext[ConfigParts],
) -> str | None:
    """As in the answer to the change itself: our own client shows it, others read only the message of an error."""
    is_asked = any(entry.name == "cleanup.policy" for entry in entries)
    if (
        not is_asked
        or resource.resource_type != ConfigResourceType.TOPIC
        or is_internal_topic(resource.resource_name)
    ):
        return None
    policy = policy_of(context, resource.resource_name, sources=sources)
    return compaction_warning(policy, is_enabled=sources.current.log_cleaner_enable)


def _describe(
    resource: DescribeConfigsResource, sources: BrokerSources, context: RequestContext[ConfigParts]
) -> list[DescribedConfig]:
    name, keys = resource.resource_name, resource.configuration_keys
    image = context.broker.images.current
    match resource.resource_type:
        case ConfigResourceType.TOPIC:
            validate_topic_name(name)
            if name not in image.topics:
                raise UnknownTopicOrPartition(f"The topic '{name}' does not exist.")
            return describe_topic(image.config(ResourceKind.TOPIC, name), sources=sources, keys=keys)
        case ConfigResourceType.BROKER if not name:
            return describe_broker_default(sources, keys=keys)
        case ConfigResourceType.BROKER:
            if name != str(context.broker.broker_id):
                raise InvalidRequest(
                    f"Unexpected broker id, expected {context.broker.broker_id} or empty string, but received {name}"
                )
            return describe_broker(sources, keys=keys)
        case ConfigResourceType.BROKER_LOGGER:
            check_own_broker(name, context.broker.broker_id)
            return _loggers(keys)
        case ConfigResourceType.GROUP:
            if not name:
                raise InvalidRequest("Group name must not be empty.")
            return describe_group(image.config(ResourceKind.GROUP, name), sources=sources, keys=keys)
        case ConfigResourceType.CLIENT_METRICS:
            if not name:
                raise InvalidRequest("Client metrics subscription name must not be empty.")
            return describe_client_metrics(image.config(ResourceKind.CLIENT_METRICS, name), keys=keys)
    raise InvalidRequest(f"Unsupported resource type: {resource.resource_type}")


def _loggers(keys: Iterable[str] | None) -> list[DescribedConfig]:
    return [
        DescribedConfig(
            name, level, DescribedConfigSource.DYNAMIC_BROKER_LOGGER, False, False, (), Kind.UNKNOWN, ""
        )
        for name, level in logger_levels().items()
        if not keys or name in keys
    ]


def _fields(entry: DescribedConfig, *, with_synonyms: bool, with_docs: bool) -> dict[str, object]:
    return {
        "name": entry.name,
        "value": entry.value,
        "read_only": entry.is_read_only,
        "config_source": entry.source,
        "is_sensitive": entry.is_sensitive,
        "synonyms": [synonym._asdict() for synonym in entry.synonyms] if with_synonyms else [],
        "config_type": entry.kind,
        "documentation": entry.doc if with_docs else None,
    }
