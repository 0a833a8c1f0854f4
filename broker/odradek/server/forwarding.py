"""The dispatcher of a cluster's broker: what only the controller may decide is forwarded to it, as whole frames.

Those of `FORWARDED`. Levels of loggers are this process's own, and are set here. They are entries of the table of
handlers, so that no other request pays for a question.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final

from odradek.foundation.errors import RequestError
from odradek.handlers import failures
from odradek.handlers.config_resources import ResourceType
from odradek.handlers.context import BrokerParts, RequestContext
from odradek.handlers.dispatch import Dispatcher
from odradek.protocol.api import ApiKey
from odradek.protocol.codec import decode_request, encode_response
from odradek.server.remote_controller import RemoteController

FORWARDED: Final = frozenset(
    (
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
    )
)


class ForwardingDispatcher(Dispatcher):
    """Answers the requests of all connections of one broker of a cluster."""

    def __init__(self, broker: BrokerParts, controller: RemoteController) -> None:
        super().__init__(broker)
        self._controller = controller
        # What is forwarded is handed over as it came.
        self._raw = self._raw | {int(api) for api in FORWARDED}
        for api in FORWARDED:
            self._handles[api] = self._forward

    def _forward(self, frame: memoryview, context: RequestContext) -> Awaitable[Any]:
        if context.header.api_key == ApiKey.INCREMENTAL_ALTER_CONFIGS:
            request = _read(frame, context)
            if any(one.resource_type == ResourceType.BROKER_LOGGER for one in request.resources):
                return _set_here(request, context)
        return self._ask(frame, context)

    async def _ask(self, frame: memoryview, context: RequestContext) -> bytes:
        try:
            return await self._controller.forward(frame, client_host=context.client_host)
        except RequestError as error:
            return _refusal(_read(frame, context), context, error)


async def _set_here(request: Any, context: RequestContext) -> bytes:
    """A request that names loggers; of its other resources the controller is asked one by one."""
    from odradek.handlers import incremental_alter_configs

    header = context.header
    try:
        answer = await incremental_alter_configs.handle(request, context)
    except RequestError as error:
        return _refusal(request, context, error)
    return encode_response(header.api_key, header.api_version, header.correlation_id, answer)


def _read(frame: memoryview, context: RequestContext) -> Any:
    header = context.header
    return decode_request(header.api_key, header.api_version, frame, header.body_position)


def _refusal(request: Any, context: RequestContext, error: RequestError) -> bytes:
    header = context.header
    answer = failures.answer(header.api_key, header.api_version, request, error)
    return encode_response(header.api_key, header.api_version, header.correlation_id, answer)
