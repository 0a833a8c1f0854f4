"""What comes in at a controller's listener, and who answers it.

follow (cluster_changes)     a broker's long poll                  `controller.followers`
forward                      a client's request, from its broker   handlers, in the client's name
leave                        a broker that wants to stop           `Reign.leave`
everything else              Kafka's APIs, as in CONTROLLER_HANDLERS

A controller that is not the active one answers all of it with NOT_CONTROLLER, save ApiVersions. So does one whose
registry failed it in the middle: whether anything was changed is then for the next term to read.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Any, Final, TypeGuard, cast

from odradek.foundation.errors import NotController, RequestError, StoreError
from odradek.handlers.context import RequestContext
from odradek.handlers.counters import RequestCounters
from odradek.handlers.dispatch import Dispatcher
from odradek.handlers.errors import error_code
from odradek.handlers.table import CONTROLLER_HANDLERS, Handle, Handler
from odradek.protocol import cluster_changes, controller_requests
from odradek.protocol.api import ApiKey
from odradek.protocol.controller_requests import ForwardRequest, LeaveRequest
from odradek.server.reign import Reign
from odradek.transport.connection import Connection

logger = logging.getLogger(__name__)

_NOT_ACTIVE: Final = "This controller is not the active one; the active one is named by /controller."
_NOT_CONTROLLER_CODE: Final = error_code(NotController())


class ControllerDispatcher:
    """Answers the requests of all connections of one controller. `reign` is set while it is elected."""

    def __init__(self, counters: RequestCounters) -> None:
        self._standby = _StandbyDispatcher(counters)
        self._reign: Reign | None = None
        self._active: Dispatcher = self._standby

    @property
    def reign(self) -> Reign | None:
        """The present term; None while another controller has one, or nobody."""
        return self._reign

    @reign.setter
    def reign(self, reign: Reign | None) -> None:
        self._reign = reign
        self._active = self._standby if reign is None else _ReignDispatcher(reign)

    def __call__(self, connection: Connection, frame: memoryview) -> Any:
        """The answer to one frame, or something to await for one. Raises InvalidRequest for what cannot be read."""
        match controller_requests.api_key_of(frame):
            case cluster_changes.API_KEY:
                return self._follow(cluster_changes.parse_request(frame))
            case controller_requests.FORWARD:
                return self._forward(connection, controller_requests.parse_forward(frame))
            case controller_requests.LEAVE:
                return self._leave(controller_requests.parse_leave(frame))
        return self._dispatcher(connection, frame)

    @property
    def _dispatcher(self) -> Dispatcher:
        return self._active if _acts(self._reign) else self._standby

    def _follow(self, request: cluster_changes.FollowRequest) -> Any:
        reign = self._reign
        if not _acts(reign):
            return cluster_changes.pack_response(
                correlation_id=request.correlation_id, error_code=_NOT_CONTROLLER_CODE
            )
        return reign.followers.answer(request)

    async def _forward(self, connection: Connection, request: ForwardRequest) -> bytes:
        reign = self._reign
        if not _acts(reign):
            return controller_requests.pack_forwarded(
                correlation_id=request.correlation_id, error_code=_NOT_CONTROLLER_CODE
            )
        client = Connection(
            id=connection.id, listener_name=connection.listener_name, peer=(request.client_host, 0)
        )
        answer = self._active(client, request.frame)
        if isinstance(answer, Awaitable):
            answer = await answer
        if not _acts(reign):
            return controller_requests.pack_forwarded(
                correlation_id=request.correlation_id, error_code=_NOT_CONTROLLER_CODE
            )
        return controller_requests.pack_forwarded(
            bytes(answer),
            correlation_id=request.correlation_id,
            controller_epoch=reign.term.epoch,
            next_number=reign.next_number,
        )

    async def _leave(self, request: LeaveRequest) -> bytes:
        reign = self._reign
        failure: RequestError | None = None
        left = 0
        try:
            if not _acts(reign):
                raise NotController(_NOT_ACTIVE)
            left = len(await reign.leave(request.broker_id, broker_epoch=request.broker_epoch))
        except StoreError as error:
            if reign is not None:
                reign.fail(error)
            failure = NotController(str(error))
        except RequestError as error:
            failure = error
        if failure is not None:
            logger.info("broker %d cannot leave yet: %s", request.broker_id, failure)
        return controller_requests.pack_left(
            correlation_id=request.correlation_id, error_code=error_code(failure), left=left
        )


def _acts(reign: Reign | None) -> TypeGuard[Reign]:
    """Whether there is a term that decides; asked again after each wait, since it may have ended meanwhile."""
    return reign is not None and reign.is_active


class _ReignDispatcher(Dispatcher):
    """Kafka's APIs while the term lasts. A registry that fails is the end of the term, and no fault of the request."""

    def __init__(self, reign: Reign) -> None:
        super().__init__(reign.parts)
        self._reign = reign

    def _failed(self, error: Exception, request: Any, context: RequestContext) -> bytes:
        if isinstance(error, StoreError):
            self._reign.fail(error)
            error = NotController(f"The controller lost its registry: {error}")
        return super()._failed(error, request, context)


class _StandbyParts:
    """What little a controller knows that is not the active one."""

    def __init__(self, counters: RequestCounters) -> None:
        self.counters = counters
        self.handlers: dict[int, Handler] = CONTROLLER_HANDLERS


class _StandbyDispatcher(Dispatcher):
    """Says which APIs there are, and refuses them."""

    def __init__(self, counters: RequestCounters) -> None:
        super().__init__(cast(Any, _StandbyParts(counters)))

    def _load(self, api_key: int) -> Handle:
        return super()._load(api_key) if api_key == ApiKey.API_VERSIONS else _refuse


def _refuse(request: Any, context: Any) -> Any:
    raise NotController(_NOT_ACTIVE)
