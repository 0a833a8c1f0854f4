"""The leaders that answers about share-partitions name where another broker leads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.current_leaders import current_leaders
from odradek.broker.requests.parts import SharesParts
from odradek.broker.shares.sessions import Target
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.hot.current_leaders import CurrentLeaders
from odradek.wire.protocol.hot.fetch_response import LED_ELSEWHERE

_NONE: Final = CurrentLeaders({}, ())


def leaders_of(
    context: RequestContext[SharesParts], outcomes: Mapping[Target, Exception | None]
) -> CurrentLeaders:
    """The leaders of the partitions whose outcome is that this broker does not lead them."""
    elsewhere: list[tuple[str | bytes, int]] = [
        (topic_id.bytes, index)
        for (topic_id, index), failure in outcomes.items()
        if failure is not None and error_code(failure) in LED_ELSEWHERE
    ]
    if not elsewhere:
        return _NONE
    return current_leaders(context.broker.images.current, context.listener_name, elsewhere)
