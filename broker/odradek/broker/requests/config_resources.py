"""The kinds of resources that have settings, by their numbers on the wire, and what the three APIs for them share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from enum import IntEnum
from typing import Final, Protocol, TypeVar

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.long_answers import make_in_turns
from odradek.broker.requests.parts import HasSettings
from odradek.foundation.compaction import compaction_warning
from odradek.foundation.error_values import without_trace
from odradek.foundation.errors import InvalidRequest, RequestError
from odradek.foundation.turns import Leftovers, Turn
from odradek.metadata.controller.requests import ConfigOperation, Outcome, Resource
from odradek.metadata.image.config_description import BrokerSources
from odradek.metadata.image.configs import topic_value
from odradek.metadata.image.image import ResourceKind
from odradek.metadata.image.topic_names import is_internal_topic
from odradek.wire.protocol.errors import error_code, error_message
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.cluster import (
    AlterConfigsResource,
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsResource,
)


class RequestedResource(Protocol):
    """A resource of any request on configurations."""

    @property
    def resource_type(self) -> int: ...

    @property
    def resource_name(self) -> str: ...


AlteredResource = AlterConfigsResource | IncrementalAlterConfigsResource
# What `altered` is given by a handler for one resource, and gives back to it.
Planned = TypeVar("Planned")
AlteredResourceT = TypeVar("AlteredResourceT", AlterConfigsResource, IncrementalAlterConfigsResource)


class ConfigResourceType(IntEnum):
    """The numbers of the wire."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


_KINDS: Final = {
    ConfigResourceType.TOPIC: ResourceKind.TOPIC,
    ConfigResourceType.BROKER: ResourceKind.BROKER,
    ConfigResourceType.GROUP: ResourceKind.GROUP,
    ConfigResourceType.CLIENT_METRICS: ResourceKind.CLIENT_METRICS,
}


_POLICY_KEYS: Final[dict[int, str]] = {
    ConfigResourceType.TOPIC: "cleanup.policy",
    ConfigResourceType.BROKER: "log.cleanup.policy",
}


def resource_of(resource_type: int, name: str) -> Resource:
    """The resource as the controller names it. Raises InvalidRequest for kinds without settings that can change."""
    kind = _KINDS.get(resource_type)  # type: ignore[call-overload]
    if kind is None:
        raise InvalidRequest(f"Unknown resource type {resource_type}.")
    return Resource(kind, name)


async def alter_resources(
    resources: Sequence[AlteredResourceT],
    context: RequestContext[HasSettings],
    plan: Callable[[AlteredResourceT], Planned | None],
    alter: Callable[[list[Planned]], Awaitable[list[Outcome]]],
) -> Message:
    """The answer for all resources of AlterConfigs or IncrementalAlterConfigs.

    `plan` gives the change of one, None where it is done already, or raises its RequestError. `alter` makes all.
    """
    async with Leftovers() as kept:
        counts: dict[tuple[int, str], int] = kept.until_end({})
        outcomes: list[Outcome] = kept.until_end([])
        numbers: list[int] = kept.until_end([])
        planned: list[Planned] = kept.until_end([])
        turn = Turn()
        for resource in resources:
            if turn.is_over():
                await turn.next()
            named = resource.resource_type, resource.resource_name
            counts[named] = counts.get(named, 0) + 1
        for number, resource in enumerate(resources):
            if turn.is_over(1 + len(resource.configs)):
                await turn.next()
            outcomes.append(None)
            try:
                if counts[resource.resource_type, resource.resource_name] > 1:
                    # Which of the values counts is not known.
                    raise InvalidRequest("Each resource must appear at most once.")
                change = plan(resource)
            except RequestError as error:
                outcomes[number] = without_trace(error)
                continue
            if change is not None:
                numbers.append(number)
                planned.append(change)
        if planned:
            made_outcomes = kept.until_end(await alter(planned))
            for number, outcome in zip(numbers, made_outcomes, strict=True):
                outcomes[number] = outcome
        return await make_in_turns(
            context,
            len(outcomes),
            lambda: context.response(
                responses=(
                    _alteration_response(resource, outcome, context)
                    for resource, outcome in zip(resources, outcomes, strict=True)
                )
            ),
        )


def _alteration_response(
    resource: AlteredResource, outcome: Outcome, context: RequestContext[HasSettings]
) -> dict[str, object]:
    """Without an error, the message may be a warning: other clients ignore it, and our own shows it."""
    return {
        "error_code": error_code(outcome),
        "error_message": error_message(outcome) if outcome is not None else _warning(resource, context),
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
    }


def _warning(resource: AlteredResource, context: RequestContext[HasSettings]) -> str | None:
    """The part of a change of cleanup.policy that has no effect here, if the resource has one."""
    for config in resource.configs:
        if config.name != _POLICY_KEYS.get(resource.resource_type) or not config.value:
            continue
        words = [word.strip() for word in config.value.split(",")]
        operation = (
            config.config_operation
            if isinstance(config, IncrementalAlterConfigsAlterableConfig)
            else ConfigOperation.SET
        )
        if operation == ConfigOperation.APPEND and resource.resource_type == ConfigResourceType.TOPIC:
            broker = context.broker
            sources = BrokerSources(broker.settings, broker.images.current, is_broker=broker.is_broker)
            policy = policy_of(context, resource.resource_name, sources=sources)
            words = [*policy, *(word for word in words if word not in policy)]
        if operation != ConfigOperation.SUBTRACT and not is_internal_topic(resource.resource_name):
            return compaction_warning(words, is_enabled=context.broker.settings.log_cleaner_enable)
    return None


def policy_of(context: RequestContext[HasSettings], topic: str, *, sources: BrokerSources) -> tuple[str, ...]:
    """The cleanup.policy in force for a topic."""
    texts = context.broker.images.current.config(ResourceKind.TOPIC, topic)
    policy: tuple[str, ...] = topic_value("cleanup.policy", texts, settings=sources.current)
    return policy


def check_keys_differ(keys: Iterable[str]) -> None:
    """Raises InvalidRequest for keys of one resource that are given more than once."""
    repeated = [key for key, count in Counter(keys).items() if count > 1]
    if repeated:
        raise InvalidRequest(f"Error due to duplicate config keys: {', '.join(repeated)}")


def check_own_broker(name: str, own_id: int) -> None:
    """Raises InvalidRequest unless the request for a broker's loggers names this broker."""
    if name != str(own_id):
        raise InvalidRequest(
            f"Unexpected broker id, expected {own_id}, but received {name or 'an empty string'}; "
            "ask the broker whose loggers they are"
        )
