"""DeleteAcls: remove the ACLs that filters match, and answer which they were."""

from __future__ import annotations

from odradek.broker.requests import change_log
from odradek.broker.requests.acl_fields import entry_fields, filter_of, pattern_fields, require_authorizer
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.failures import error_fields
from odradek.broker.requests.long_answers import make_in_turns
from odradek.broker.requests.parts import AdminParts
from odradek.foundation.errors import RequestError
from odradek.foundation.turns import Leftovers, Turn
from odradek.metadata.controller.acl_changes import DeletedAcls
from odradek.security.authorization.filters import AclFilter
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.clients import DeleteAclsRequest


async def handle(request: DeleteAclsRequest, context: RequestContext[AdminParts]) -> Message:
    require_authorizer(context)
    async with Leftovers() as kept:
        turn = Turn()
        filters: list[AclFilter] = kept.until_end([])
        for one in request.filters:
            if turn.is_over():
                await turn.next()
            filters.append(filter_of(one))
        outcomes = kept.until_end(await context.broker.active_controller.delete_acls(filters))
        for outcome in outcomes:
            for binding in () if isinstance(outcome, RequestError) else outcome:
                if turn.is_over():
                    await turn.next()
                change_log.log_changed_acl(context, binding, "removed")
        matching = sum(1 if isinstance(one, RequestError) else len(one) for one in outcomes)
        return await make_in_turns(
            context,
            len(outcomes) + matching,
            lambda: context.response(filter_results=map(_result, outcomes)),
        )


def _result(outcome: DeletedAcls) -> dict[str, object]:
    if isinstance(outcome, RequestError):
        return {**error_fields(outcome), "matching_acls": []}
    return {
        **error_fields(None),
        "matching_acls": (
            {**error_fields(None), **pattern_fields(pattern), **entry_fields(entry)}
            for pattern, entry in outcome
        ),
    }
