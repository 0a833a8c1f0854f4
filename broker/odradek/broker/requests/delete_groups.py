"""DeleteGroups: delete groups without members, and their offsets. From version 3 on an error has a text."""

from __future__ import annotations

import inspect

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.failures import error_fields
from odradek.broker.requests.parts import ConsumerGroupParts
from odradek.foundation.error_values import without_trace
from odradek.foundation.errors import OdradekError
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.groups import DeleteGroupsRequest


async def handle(request: DeleteGroupsRequest, context: RequestContext[ConsumerGroupParts]) -> Message:
    results = [
        {"group_id": group_id, **error_fields(await _delete(group_id, context))}
        for group_id in dict.fromkeys(request.groups_names)
    ]
    return context.response(results=results)


async def _delete(group_id: str, context: RequestContext[ConsumerGroupParts]) -> OdradekError | None:
    try:
        error = context.broker.groups.admin.delete(group_id)
        return await error if inspect.isawaitable(error) else error
    except OdradekError as failure:
        return without_trace(failure)
