"""AlterConfigs: replace all settings of a resource. Newer clients use IncrementalAlterConfigs, for single settings."""

from __future__ import annotations

from odradek.broker.requests import change_log
from odradek.broker.requests.config_resources import (
    ConfigResourceType,
    alter_resources,
    check_keys_differ,
    resource_of,
)
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.parts import AdminParts
from odradek.broker.requests.settings_trial import needs_trial, try_settings
from odradek.foundation.errors import InvalidRequest
from odradek.foundation.turns import Leftovers, Turn
from odradek.metadata.controller.requests import Outcome, Resource
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.cluster import AlterConfigsRequest, AlterConfigsResource

# A resource as the request and as the controller names it, and all its settings.
Change = tuple[AlterConfigsResource, Resource, dict[str, str | None]]


async def handle(request: AlterConfigsRequest, context: RequestContext[AdminParts]) -> Message:
    if context.broker.is_broker and needs_trial(request):
        await try_settings(request, settings=context.broker.settings, image=context.broker.images.current)

    async def alter(planned: list[Change]) -> list[Outcome]:
        turn = Turn()
        async with Leftovers() as kept:
            wanted = kept.until_end([(target, texts) for _, target, texts in planned])
            outcomes = await context.broker.active_controller.alter_configs(
                wanted, validate_only=request.validate_only
            )
        for (resource, _, texts), outcome in zip(planned, outcomes, strict=True):
            if turn.is_over():
                await turn.next()
            if outcome is None and not request.validate_only:
                change_log.log_replaced_settings(context, resource, texts)
        return outcomes

    return await alter_resources(request.resources, context, _plan_change, alter)


def _plan_change(resource: AlterConfigsResource) -> Change:
    if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
        raise InvalidRequest("Log levels cannot be replaced all at once; use IncrementalAlterConfigs.")
    check_keys_differ(config.name for config in resource.configs)
    target = resource_of(resource.resource_type, resource.resource_name)
    return resource, target, {config.name: config.value for config in resource.configs}
