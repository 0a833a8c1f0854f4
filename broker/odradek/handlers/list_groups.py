"""ListGroups: the groups that this broker coordinates, by state (from version 4) and type (from
version 5).
"""

from __future__ import annotations

from typing import Any, Final

from odradek.foundation.errors import OdradekError
from odradek.groups import listing
from odradek.handlers.context import RequestContext
from odradek.handlers.errors import error_code
from odradek.protocol import messages
from odradek.protocol.api import ApiKey

API: Final = ApiKey.LIST_GROUPS
VERSIONS: Final = (0, 5)


def handle(request: Any, context: RequestContext) -> Any:
    version = context.header.api_version
    try:
        groups = listing.list_groups(
            context.broker.groups,
            states=getattr(request, "states_filter", ()),
            types=getattr(request, "types_filter", ()),
        )
    except OdradekError as error:
        return messages.response(API, version, error_code=error_code(error))
    return messages.response(
        API,
        version,
        groups=[
            {
                "group_id": group.group_id,
                "protocol_type": group.protocol_type,
                "group_state": group.state,
                "group_type": group.group_type,
            }
            for group in groups
        ],
    )
