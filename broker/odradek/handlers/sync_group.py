"""SyncGroup: a member asks for its assignment, the leader brings everybody's."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import Any, Final

from odradek.foundation.errors import InconsistentGroupProtocol
from odradek.groups import membership
from odradek.groups.members import SyncResult
from odradek.handlers.context import RequestContext
from odradek.handlers.errors import error_code
from odradek.protocol import messages
from odradek.protocol.api import ApiKey

API: Final = ApiKey.SYNC_GROUP
VERSIONS: Final = (0, 5)

# From this version on the protocol must be named (KIP-559).
VERSION_WITH_PROTOCOL: Final = 5


def handle(request: Any, context: RequestContext) -> Any:
    version = context.header.api_version
    protocol_type = getattr(request, "protocol_type", None)
    protocol = getattr(request, "protocol_name", None)
    if version >= VERSION_WITH_PROTOCOL and (protocol_type is None or protocol is None):
        error = InconsistentGroupProtocol("the protocol's type and name must be given")
        return _response(version, SyncResult(error=error))
    result = membership.sync(
        context.broker.groups,
        request.group_id,
        member_id=request.member_id,
        instance_id=getattr(request, "group_instance_id", None),
        generation=request.generation_id,
        protocol_type=protocol_type,
        protocol=protocol,
        assignments={item.member_id: bytes(item.assignment) for item in request.assignments},
    )
    if inspect.isawaitable(result):
        return _later(version, result)
    return _response(version, result)


async def _later(version: int, result: Awaitable[SyncResult]) -> Any:
    return _response(version, await result)


def _response(version: int, result: SyncResult) -> Any:
    return messages.response(
        API,
        version,
        error_code=error_code(result.error),
        protocol_type=result.protocol_type,
        protocol_name=result.protocol,
        assignment=result.assignment,
    )
