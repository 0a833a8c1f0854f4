"""AlterConfigs: replace all settings of a resource. Newer clients use IncrementalAlterConfigs, for single settings."""

from __future__ import annotations

from collections import Counter

from odradek.controller.requests import Outcome
from odradek.foundation.errors import InvalidRequest
from odradek.handlers import change_log
from odradek.handlers.config_resources import ConfigResourceType, altered, resource_of
from odradek.handlers.context import RequestContext
from odradek.protocol.messages import Message
from odradek.protocol.requests.cluster import AlterConfigsRequest, AlterConfigsResource


async def handle(request: AlterConfigsRequest, context: RequestContext) -> Message:
    async def alter_one(resource: AlterConfigsResource) -> Outcome:
        return await _alter_one(resource, context, validate_only=request.validate_only)

    responses = await altered(request.resources, context, alter_one)
    return context.response(responses=responses)


async def _alter_one(
    resource: AlterConfigsResource, context: RequestContext, *, validate_only: bool
) -> Outcome:
    if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
        raise InvalidRequest("Log levels cannot be replaced all at once; use IncrementalAlterConfigs.")
    repeated = [key for key, count in Counter(c.name for c in resource.configs).items() if count > 1]
    if repeated:
        raise InvalidRequest(f"Error due to duplicate config keys: {', '.join(repeated)}")
    target = resource_of(resource.resource_type, resource.resource_name)
    texts = {config.name: config.value for config in resource.configs}
    outcomes: list[Outcome] = await context.broker.active_controller.alter_configs(
        [(target, texts)], validate_only=validate_only
    )
    if outcomes[0] is None and not validate_only:
        change_log.settings_replaced(context, resource, texts)
    return outcomes[0]
