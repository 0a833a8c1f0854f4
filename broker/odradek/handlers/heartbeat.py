"""Heartbeat: a member of a classic group is alive, and learns whether it must join again."""

from __future__ import annotations

from typing import Any, Final

from odradek.foundation.errors import CoordinatorLoadInProgress, OdradekError
from odradek.groups import membership
from odradek.handlers.context import RequestContext
from odradek.handlers.errors import error_code
from odradek.protocol import messages
from odradek.protocol.api import ApiKey

API: Final = ApiKey.HEARTBEAT
VERSIONS: Final = (0, 4)


def handle(request: Any, context: RequestContext) -> Any:
    code = 0
    try:
        membership.heartbeat(
            context.broker.groups,
            request.group_id,
            member_id=request.member_id,
            instance_id=getattr(request, "group_instance_id", None),
            generation=request.generation_id,
        )
    except CoordinatorLoadInProgress:
        # As in Kafka: the member's session has not begun to count yet, so nothing is wrong with it.
        code = 0
    except OdradekError as error:
        code = error_code(error)
    return messages.response(API, context.header.api_version, error_code=code)
