"""DeleteAcls: remove the ACLs that filters match, and answer which they were."""

from __future__ import annotations

from odradek.controller.acl_changes import DeletedAcls
from odradek.foundation.errors import RequestError
from odradek.handlers import change_log
from odradek.handlers.acl_fields import entry_fields, filter_of, pattern_fields, require_authorizer
from odradek.handlers.context import RequestContext
from odradek.handlers.failures import error_fields
from odradek.protocol.messages import Message
from odradek.protocol.requests.clients import DeleteAclsRequest


async def handle(request: DeleteAclsRequest, context: RequestContext) -> Message:
    require_authorizer(context)
    filters = [filter_of(one) for one in request.filters]
    outcomes = await context.broker.active_controller.delete_acls(filters)
    for outcome in outcomes:
        if not isinstance(outcome, RequestError):
            for binding in outcome:
                change_log.acl_changed(context, binding, "removed")
    return context.response(filter_results=[_result(one) for one in outcomes])


def _result(outcome: DeletedAcls) -> dict[str, object]:
    if isinstance(outcome, RequestError):
        return {**error_fields(outcome), "matching_acls": []}
    return {
        **error_fields(None),
        "matching_acls": [
            {**error_fields(None), **pattern_fields(pattern), **entry_fields(entry)}
            for pattern, entry in outcome
        ],
    }
