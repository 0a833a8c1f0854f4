"""DeleteGroups: groups without members go, and their offsets with them."""

from __future__ import annotations

import inspect
from typing import Any, Final

from odradek.foundation.errors import OdradekError
from odradek.groups import listing
from odradek.handlers.context import RequestContext
from odradek.handlers.errors import error_code
from odradek.protocol import messages
from odradek.protocol.api import ApiKey

API: Final = ApiKey.DELETE_GROUPS
VERSIONS: Final = (0, 2)


async def handle(request: Any, context: RequestContext) -> Any:
    results = [
        {"group_id": group_id, "error_code": error_code(await _delete(group_id, context))}
        for group_id in dict.fromkeys(request.groups_names)
    ]
    return messages.response(API, context.header.api_version, results=results)


async def _delete(group_id: str, context: RequestContext) -> OdradekError | None:
    try:
        error = listing.delete(context.broker.groups, group_id)
        return await error if inspect.isawaitable(error) else error
    except OdradekError as failure:
        return failure
