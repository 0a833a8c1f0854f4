"""IncrementalAlterConfigs: change single settings of topics, brokers and groups, and the levels of loggers."""

from __future__ import annotations

from functools import partial

from odradek.broker.requests import change_log
from odradek.broker.requests.config_resources import (
    ConfigResourceType,
    alter_resources,
    check_keys_differ,
    check_own_broker,
    resource_of,
)
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.parts import ConfigParts
from odradek.broker.requests.settings_trial import needs_trial, try_settings
from odradek.foundation.errors import InvalidRequest
from odradek.foundation.log_levels import check_level, set_level
from odradek.foundation.turns import Leftovers, Turn
from odradek.metadata.controller.requests import AlterConfigOp, ConfigOperation, Outcome, Resource
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.cluster import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)

# A resource as the request and as the controller names it, and the changes of its settings.
Change = tuple[IncrementalAlterConfigsResource, Resource, list[AlterConfigOp]]


async def handle(request: IncrementalAlterConfigsRequest, context: RequestContext[ConfigParts]) -> Message:
    if context.broker.is_broker and needs_trial(request):
        await try_settings(request, settings=context.broker.settings, image=context.broker.images.current)

    async def alter(planned: list[Change]) -> list[Outcome]:
        turn = Turn()
        async with Leftovers() as kept:
            wanted = kept.until_end([(target, changes) for _, target, changes in planned])
            outcomes = await context.broker.controller.incremental_alter_configs(
                wanted, validate_only=request.validate_only
            )
        for (resource, _, changes), outcome in zip(planned, outcomes, strict=True):
            if turn.is_over():
                await turn.next()
            if outcome is None and not request.validate_only:
                change_log.log_changed_settings(context, resource, changes)
        return outcomes

    plan = partial(_plan_change, context=context, validate_only=request.validate_only)
    return await alter_resources(request.resources, context, plan, alter)


def _plan_change(
    resource: IncrementalAlterConfigsResource, context: RequestContext[ConfigParts], *, validate_only: bool
) -> Change | None:
    """The change for the controller; None for log levels, which are set at once."""
    changes = [_change(config) for config in resource.configs]
    if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
        check_own_broker(resource.resource_name, context.broker.broker_id)
        _set_levels(changes, validate_only=validate_only)
        if context.broker.authorizer is not None:
            context.broker.authorizer.forget_remembered()
        if not validate_only:
            change_log.log_changed_settings(context, resource, changes)
        return None
    return resource, resource_of(resource.resource_type, resource.resource_name), changes


def _change(config: IncrementalAlterConfigsAlterableConfig) -> AlterConfigOp:
    try:
        operation = ConfigOperation(config.config_operation)
    except ValueError:
        raise InvalidRequest(f"Unknown operation {config.config_operation} for {config.name}") from None
    return AlterConfigOp(config.name, operation, config.value)


def _set_levels(changes: list[AlterConfigOp], *, validate_only: bool) -> None:
    """All levels or none. Raises InvalidRequest and InvalidConfig."""
    check_keys_differ(change.key for change in changes)
    levels: dict[str, str | None] = {}
    for change in changes:
        if change.operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
            raise InvalidRequest(
                f"{change.operation.name} operation is not allowed for the BROKER_LOGGER resource"
            )
        if change.operation is ConfigOperation.SET and change.value is None:
            raise InvalidRequest(f"Null value not supported for : {change.key}")
        levels[change.key] = change.value if change.operation is ConfigOperation.SET else None
        check_level(change.key, levels[change.key])
    if not validate_only:
        for name, level in levels.items():
            set_level(name, level)
