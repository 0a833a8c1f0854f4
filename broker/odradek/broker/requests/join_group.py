"""JoinGroup: a member enters a group of the classic protocol; the answer comes when the rebalance is over.

Before version 1 the rebalance timeout is the session timeout. From version 4 on a new member first gets its id
(KIP-394). From version 5 on it may be static (KIP-345). From version 9 on a static leader may skip the assignment.

A member with more protocols than the bound is refused. Kafka takes any number.
"""

from __future__ import annotations

from odradek.broker.groups.classic.members import JoinRequest, JoinResult
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.parts import ConsumerGroupParts
from odradek.foundation.errors import InvalidRequest
from odradek.foundation.limits import GROUP_PROTOCOLS_PER_MEMBER_MAX
from odradek.network.pending import Pending, when_ready
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.messages import Message, milliseconds
from odradek.wire.protocol.requests.groups import JoinGroupRequest


def handle(
    request: JoinGroupRequest, context: RequestContext[ConsumerGroupParts]
) -> Message | Pending[Message]:
    if len(request.protocols) > GROUP_PROTOCOLS_PER_MEMBER_MAX:
        error = InvalidRequest(
            f"the member offers {len(request.protocols)} protocols to the group {request.group_id!r}; at most "
            f"{GROUP_PROTOCOLS_PER_MEMBER_MAX} are compared"
        )
        return _response(context, JoinResult(error=error, member_id=request.member_id))
    result = context.broker.groups.join(request.group_id, _join_request(request, context))
    return when_ready(result, lambda joined: _response(context, joined))


def _join_request(request: JoinGroupRequest, context: RequestContext[ConsumerGroupParts]) -> JoinRequest:
    version = context.header.api_version
    session_timeout_ms = milliseconds(request.session_timeout)
    instance_id = request.group_instance_id
    return JoinRequest(
        member_id=request.member_id,
        instance_id=instance_id,
        client_id=context.header.client_id or "",
        client_host=f"/{context.client_host}",
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=(
            milliseconds(request.rebalance_timeout) if version >= 1 else session_timeout_ms
        ),
        protocol_type=request.protocol_type,
        protocols=tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
        requires_known_member_id=version >= 4 and instance_id is None and not request.member_id,
        supports_skipping_assignment=version >= 9,
        reason=request.reason,
    )


def _response(context: RequestContext[ConsumerGroupParts], result: JoinResult) -> Message:
    # Only from version 7 on may the protocol be null.
    protocol = result.protocol if context.header.api_version >= 7 else result.protocol or ""
    return context.response(
        error_code=error_code(result.error),
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name=protocol,
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            {"member_id": member_id, "group_instance_id": instance_id, "metadata": metadata}
            for member_id, instance_id, metadata in result.members
        ],
    )
