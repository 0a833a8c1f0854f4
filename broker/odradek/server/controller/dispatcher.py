"""Answers the requests at a controller's listener.

    follow (cluster_changes)     a broker's long poll                  `metadata.controller.metadata_subscribers`
    forward                      a client's request, from its broker   handlers, in the client's name
    leave                        a broker that wants to stop           `ActiveController.leave`
    everything else              Kafka's APIs, as in CONTROLLER_HANDLERS

A controller that is not the active one answers all of them with NOT_CONTROLLER, except ApiVersions. So does the active
one when its registry fails during a request: the next term reads whether anything was changed.
"""

from __future__ import annotations

import logging
from typing import Final, TypeGuard, cast

from odradek.broker.process.trace_watch import SpanExport, TraceWatch
from odradek.broker.requests.context import AnyContext, RequestParts
from odradek.broker.requests.counters import RequestCounters
from odradek.broker.requests.dispatch import AnyStep, Dispatcher
from odradek.broker.requests.loading import Answer, Handle
from odradek.broker.requests.table import CONTROLLER_HANDLERS
from odradek.foundation.errors import NotController, RequestError
from odradek.foundation.registry_errors import StoreError
from odradek.foundation.security_errors import ClusterAuthorizationFailed
from odradek.metadata.image.image import ImageHolder
from odradek.network.connection import Connection
from odradek.network.pending import Pending
from odradek.server.controller.active_controller import ActiveController
from odradek.wire.protocol import cluster_changes, controller_requests
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.cluster_changes import FollowRequest, FollowResponse
from odradek.wire.protocol.controller_requests import (
    ForwardRequest,
    ForwardResponse,
    LeaveRequest,
    LeaveResponse,
)
from odradek.wire.protocol.errors import error_code
from odradek.wire.protocol.frames import Frame
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.own_requests import api_key_of

logger = logging.getLogger(__name__)

_NOT_ACTIVE: Final = "This controller is not the active one; the active one is named by /controller."
_NOT_CONTROLLER_CODE: Final = error_code(NotController())
_DENIED: Final = "The peer may not act as a broker: it needs ClusterAction on the cluster."
_DENIED_CODE: Final = error_code(ClusterAuthorizationFailed())


class ControllerDispatcher:
    """Answers the requests of all connections of one controller. `active_controller` is set while it is elected."""

    def __init__(self, counters: RequestCounters, export: SpanExport) -> None:
        """`export` gets the traces of the requests that brokers forward."""
        self._export = export
        self._tracing: TraceWatch | None = None
        self._standby = _standby_dispatcher(counters)
        self._active_controller: ActiveController | None = None
        self._active_dispatcher: Dispatcher = self._standby

    @property
    def active_controller(self) -> ActiveController | None:
        """The present term; None while this controller is on standby."""
        return self._active_controller

    @active_controller.setter
    def active_controller(self, active: ActiveController | None) -> None:
        self._active_controller = active
        self._active_dispatcher = self._standby if active is None else _active_dispatcher(active)
        if self._tracing is not None:
            self._tracing.stop()
            self._tracing = None
        if active is not None:
            self._tracing = TraceWatch(active.settings, self._active_dispatcher, self._export)

    def __call__(self, connection: Connection, frame: memoryview) -> Frame | Pending[Frame | None] | None:
        """The answer to one frame, at once or pending. Raises InvalidRequest for a frame that cannot be read."""
        match api_key_of(frame):
            case cluster_changes.API_KEY:
                return self._follow(cluster_changes.parse_request(frame), connection)
            case controller_requests.FORWARD | controller_requests.FORWARD_AS:
                request = controller_requests.parse_forward(frame)
                return Pending(self._forward(connection, request))
            case controller_requests.LEAVE:
                return Pending(self._leave(controller_requests.parse_leave(frame), connection))
        return self._dispatcher(connection, frame)

    @property
    def _dispatcher(self) -> Dispatcher:
        return self._active_dispatcher if _is_deciding(self._active_controller) else self._standby

    def _may_act(self, connection: Connection) -> bool:
        """Whether the peer may send the requests of brokers; noted if not."""
        active = self._active_controller
        authorizer = None if active is None else active.parts.shared.authorizer
        if active is None or authorizer is None:
            return True
        from odradek.broker.requests.rights.rights import is_broker

        return is_broker(authorizer, connection, active.parts.shared.counters)

    def _follow(self, request: FollowRequest, connection: Connection) -> bytes | Pending[Frame | None]:
        active = self._active_controller
        if not self._may_act(connection):
            return cluster_changes.pack_response(FollowResponse(request.correlation_id, _DENIED_CODE))
        if not _is_deciding(active):
            return cluster_changes.pack_response(FollowResponse(request.correlation_id, _NOT_CONTROLLER_CODE))
        answer = active.subscribers.answer(request)
        return answer if isinstance(answer, bytes) else Pending(answer)

    async def _forward(self, connection: Connection, request: ForwardRequest) -> Frame:
        active = self._active_controller
        if not _is_deciding(active):
            return _refuse_forwarded(request, _NOT_CONTROLLER_CODE)
        if not self._may_act(connection):
            return _refuse_forwarded(request, _DENIED_CODE)
        client = Connection(
            id=connection.id,
            listener_name=connection.listener_name,
            # A broker's own request is made in the broker's name.
            peer=(request.client_host, 0) if request.principal else connection.peer,
        )
        client.principal = request.principal or connection.principal
        answer = self._active_dispatcher(client, memoryview(request.frame))
        if isinstance(answer, Pending):
            answer = await answer
        # Each of these APIs has an answer, and none of them is answered from files.
        assert isinstance(answer, bytes)
        if not _is_deciding(active):
            return _refuse_forwarded(request, _NOT_CONTROLLER_CODE)
        return controller_requests.pack_forwarded(
            ForwardResponse(request.correlation_id, 0, active.term.epoch, active.next_number, answer)
        )

    async def _leave(self, request: LeaveRequest, connection: Connection) -> Frame:
        active = self._active_controller
        failure: RequestError | None = None
        left = 0
        try:
            if not _is_deciding(active):
                raise NotController(_NOT_ACTIVE)
            if not self._may_act(connection):
                raise ClusterAuthorizationFailed(_DENIED)
            left = len(await active.leave(request.broker_id, broker_epoch=request.broker_epoch))
        except StoreError as error:
            if active is not None:
                active.fail(error)
            failure = NotController(str(error))
        except RequestError as error:
            failure = error
        if failure is not None:
            logger.info("broker %d cannot leave yet: %s", request.broker_id, failure)
        return controller_requests.pack_left(LeaveResponse(request.correlation_id, error_code(failure), left))


def _refuse_forwarded(request: ForwardRequest, code: int) -> bytes:
    return controller_requests.pack_forwarded(ForwardResponse(request.correlation_id, code))


def _is_deciding(active: ActiveController | None) -> TypeGuard[ActiveController]:
    """Whether there is a term that decides; checked again after each wait, during which it may have ended."""
    return active is not None and active.is_active


def _active_dispatcher(active: ActiveController) -> Dispatcher:
    """Serves Kafka's APIs during the term. A failure of the registry ends the term, and is no error of the request."""

    def raise_failure(error: Exception) -> Message:
        if isinstance(error, StoreError):
            active.fail(error)
            raise NotController(f"The controller lost its registry: {error}") from error
        raise error

    def end_the_term(handle: Handle, request: object, context: AnyContext) -> Answer:
        try:
            answer = handle(request, context)
        except StoreError as error:
            return raise_failure(error)
        if isinstance(answer, Pending):
            return cast("Pending[Message | Frame | None]", answer).then(
                lambda ready: ready, failed=raise_failure
            )
        return answer

    steps: list[AnyStep] = [end_the_term]
    if active.parts.shared.authorizer is not None:
        from odradek.broker.requests.rights.step import AuthorizationStep

        steps.append(AuthorizationStep(active.parts.shared.authorizer))
    return Dispatcher(active.parts, steps=steps)


class _StandbyParts:
    """The parts of a controller that is not the active one."""

    def __init__(self, counters: RequestCounters) -> None:
        self.shared: Final = RequestParts(
            images=ImageHolder(), counters=counters, handlers=CONTROLLER_HANDLERS, is_broker=False
        )


def _standby_dispatcher(counters: RequestCounters) -> Dispatcher:
    """Answers ApiVersions, and refuses every other request."""
    refused = [api for api in CONTROLLER_HANDLERS if api != ApiKey.API_VERSIONS]
    return Dispatcher(_StandbyParts(counters), handles=dict.fromkeys(refused, _refuse))


def _refuse(request: object, context: AnyContext) -> Answer:
    raise NotController(_NOT_ACTIVE)
