"""Heartbeat: a member of a classic group is alive; the answer says whether it must join again."""

from __future__ import annotations

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.parts import ConsumerGroupParts
from odradek.foundation.errors import CoordinatorLoadInProgress, OdradekError
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.requests.groups import HeartbeatRequest


def handle(request: HeartbeatRequest, context: RequestContext[ConsumerGroupParts]) -> Message:
    code = 0
    try:
        context.broker.groups.heartbeat(
            request.group_id,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            generation=request.generation_id,
        )
    except CoordinatorLoadInProgress:
        # As in Kafka: the member's session starts after the load, so this is no error.
        code = 0
    except OdradekError as error:
        code = error_code(error)
    return context.response(error_code=code)
