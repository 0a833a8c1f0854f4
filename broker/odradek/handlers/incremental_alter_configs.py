"""IncrementalAlterConfigs: change single settings of topics, brokers and groups, and the levels of loggers."""

from __future__ import annotations

from functools import partial

from odradek.controller.requests import AlterConfigOp, ConfigOperation, Outcome
from odradek.foundation.errors import InvalidRequest
from odradek.foundation.log_levels import check_level, set_level
from odradek.handlers import change_log
from odradek.handlers.config_resources import (
    ConfigResourceType,
    altered,
    check_keys_differ,
    check_own_broker,
    resource_of,
)
from odradek.handlers.context import RequestContext
from odradek.protocol.messages import Message
from odradek.protocol.requests.cluster import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)


async def handle(request: IncrementalAlterConfigsRequest, context: RequestContext) -> Message:
    alter_one = partial(_alter_one, context=context, validate_only=request.validate_only)
    return await altered(request.resources, context, alter_one)


async def _alter_one(
    resource: IncrementalAlterConfigsResource, context: RequestContext, *, validate_only: bool
) -> Outcome:
    changes = [_change(config) for config in resource.configs]
    if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
        check_own_broker(resource.resource_name, context.broker.broker_id)
        _set_levels(changes, validate_only=validate_only)
        if context.broker.authorizer is not None:
            context.broker.authorizer.forget_remembered()
        outcome = None
    else:
        target = resource_of(resource.resource_type, resource.resource_name)
        (outcome,) = await context.broker.controller.incremental_alter_configs(
            [(target, changes)], validate_only=validate_only
        )
    if outcome is None and not validate_only:
        change_log.settings_changed(context, resource, changes)
    return outcome


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
