"""CreateAcls: add ACLs. One that is wrong does not keep the others from being added."""

from __future__ import annotations

from odradek.broker.requests import change_log
from odradek.broker.requests.acl_fields import require_authorizer, value_of
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.long_answers import make_in_turns
from odradek.broker.requests.parts import AdminParts
from odradek.foundation.turns import Leftovers, Turn
from odradek.metadata.controller.acl_changes import check_change_count
from odradek.security.authorization.acls import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
    ResourcePattern,
)
from odradek.wire.protocol.errors import error_code, error_message
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.clients import AclCreation, CreateAclsRequest


async def handle(request: CreateAclsRequest, context: RequestContext[AdminParts]) -> Message:
    require_authorizer(context)
    check_change_count(len(request.creations))
    async with Leftovers() as kept:
        turn = Turn()
        bindings: list[AclBinding] = kept.until_end([])
        for creation in request.creations:
            if turn.is_over():
                await turn.next()
            bindings.append(_binding(creation))
        outcomes = kept.until_end(await context.broker.active_controller.create_acls(bindings))
        for binding, outcome in zip(bindings, outcomes, strict=True):
            if turn.is_over():
                await turn.next()
            if outcome is None:
                change_log.log_changed_acl(context, binding, "added")
        return await make_in_turns(
            context,
            len(outcomes),
            lambda: context.response(
                results=(
                    {"error_code": error_code(outcome), "error_message": error_message(outcome) or ""}
                    for outcome in outcomes
                )
            ),
        )


def _binding(creation: AclCreation) -> AclBinding:
    return AclBinding(
        ResourcePattern(
            value_of(AclResourceType, creation.resource_type),
            creation.resource_name,
            value_of(PatternType, creation.resource_pattern_type),
        ),
        AccessControlEntry(
            creation.principal,
            creation.host,
            value_of(AclOperation, creation.operation),
            value_of(PermissionType, creation.permission_type),
        ),
    )
