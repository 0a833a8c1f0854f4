"""AlterConfigs: replace all settings of a resource. Newer clients use IncrementalAlterConfigs, for single settings."""

from __future__ import annotations

from functools import partial

from odradek.controller.requests import Outcome
from odradek.foundation.errors import InvalidRequest
from odradek.handlers import change_log
from odradek.handlers.config_resources import ConfigResourceType, altered, check_keys_differ, resource_of
from odradek.handlers.context import RequestContext
from odradek.protocol.messages import Message
from odradek.protocol.requests.cluster import AlterConfigsRequest, AlterConfigsResource


async def handle(request: AlterConfigsRequest, context: RequestContext) -> Message:
    alter_one = partial(_alter_one, context=context, validate_only=request.validate_only)
    return await altered(request.resources, context, alter_one)


async def _alter_one(
    resource: AlterConfigsResource, context: RequestContext, *, validate_only: bool
) -> Outcome:
    if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
        raise InvalidRequest("Log levels cannot be replaced all at once; use IncrementalAlterConfigs.")
    check_keys_differ(config.name for config in resource.configs)
    target = resource_of(resource.resource_type, resource.resource_name)
    texts = {config.name: config.value for config in resource.configs}
    (outcome,) = await context.broker.active_controller.alter_configs(
        [(target, texts)], validate_only=validate_only
    )
    if outcome is None and not validate_only:
        change_log.settings_replaced(context, resource, texts)
    return outcome
