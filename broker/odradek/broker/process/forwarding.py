"""The dispatcher of a cluster's broker: it forwards requests that only the controller may decide, as whole frames.

The APIs are those of `FORWARDED`. Levels of loggers belong to this process, and are set here. Both are entries of the
dispatcher's table, so that other requests need no check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from odradek.broker.process import late
from odradek.broker.process.remote_controller import RemoteController
from odradek.broker.requests import failures
from odradek.broker.requests.config_resources import ConfigResourceType
from odradek.broker.requests.context import AnyContext
from odradek.broker.requests.dispatch import AnyStep, Dispatcher
from odradek.broker.requests.loading import Handle, load
from odradek.broker.requests.parts import BrokerParts
from odradek.broker.requests.table import FORWARDED
from odradek.foundation.error_values import without_trace
from odradek.foundation.errors import RequestError
from odradek.foundation.settings.areas.protection import LISTENER_PREFIX
from odradek.foundation.turn_limits import REQUEST_BYTES_DECODED_AT_ONCE_MAX
from odradek.metadata.image.cordons import CORDON_KEY
from odradek.network.pending import Pending
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.codec import decode_typed_request, encode_response
from odradek.wire.protocol.framing import tag_request
from odradek.wire.protocol.requests.cluster import IncrementalAlterConfigsRequest

if TYPE_CHECKING:
    from odradek.foundation.settings.broker_settings import Settings
    from odradek.wire.protocol.messages import AnyMessage

_OF_TOKENS: Final = frozenset(
    (ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN)
)
_OF_CONFIGS: Final = frozenset((ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS))


def forwarding_dispatcher(parts: BrokerParts, controller: RemoteController) -> Dispatcher:
    """The dispatcher for all connections of one broker of a cluster."""
    broker = parts.shared
    forwarded = {int(api): broker.handlers[api]._replace(takes_frame=True) for api in FORWARDED}
    forwarding = _Forwarding(controller, parts.configs.settings)
    steps: list[AnyStep] = []
    if broker.authorizer is not None:
        steps.append(late.AuthorizationStep(broker.authorizer, late.FORWARDING_CHECKS))
    return Dispatcher(
        parts,
        table={**broker.handlers, **forwarded},
        handles=dict.fromkeys(forwarded, cast(Handle, forwarding)),
        steps=steps,
    )


class _Forwarding:
    """The handler of the forwarded APIs."""

    def __init__(self, controller: RemoteController, settings: Settings) -> None:
        self._controller = controller
        self._settings = settings

    def __call__(self, frame: memoryview, context: AnyContext) -> Pending[bytes]:
        if context.header.api_key == ApiKey.INCREMENTAL_ALTER_CONFIGS:
            if len(frame) > REQUEST_BYTES_DECODED_AT_ONCE_MAX:
                return Pending(self._ask_or_set_log_levels(frame, context))
            request = _read(frame, context)
            if _names_loggers(request):
                return Pending(_set_log_levels(request, context))
        if context.header.api_key in _OF_CONFIGS and _may_need_trial(frame):
            return Pending(self._ask_after_trial(frame, context))
        if context.header.api_key in _OF_TOKENS:
            return Pending(self._ask_for_tokens(frame, context))
        return Pending(self._ask(frame, context))

    async def _ask_or_set_log_levels(self, frame: memoryview, context: AnyContext) -> bytes:
        """As for a small request. The thread reads this one, and frees it: see `broker.requests.long_requests`."""
        in_thread = context.broker.long_work.submit
        requests: list[IncrementalAlterConfigsRequest] = []
        # What the client has sent behind it must not overtake it.
        context.connection.hold()

        def names_loggers() -> bool:
            requests.append(_read(frame, context))
            return _names_loggers(requests[0])

        try:
            if await in_thread(names_loggers):
                return await _set_log_levels(requests[0], context)
            return await self._ask(frame, context)
        finally:
            in_thread(lambda: late.free(requests)).add_done_callback(lambda _: context.connection.release())

    async def _ask_for_tokens(self, frame: memoryview, context: AnyContext) -> bytes:
        try:
            # The controller sees this broker's connection, and not the client's.
            late.check_requester(context)
        except RequestError as error:
            return _refusal(_read(frame, context), context, error)
        return await self._ask(frame, context)

    async def _ask_after_trial(self, frame: memoryview, context: AnyContext) -> bytes:
        request: AnyMessage = _read(frame, context)
        try:
            # A client without the right learns nothing of files; the controller refuses it.
            if late.needs_trial(request) and _may_alter_configs(context):
                images = context.broker.images
                await late.try_settings(request, settings=self._settings, image=images.current)
        except RequestError as error:
            return _refusal(request, context, error)
        return await self._ask(frame, context)

    async def _ask(self, frame: memoryview, context: AnyContext) -> bytes:
        try:
            return await self._controller.forward(
                tag_request(frame, context.header),
                client_host=context.client_host,
                principal=context.principal,
            )
        except RequestError as error:
            refusal = without_trace(error)
        if len(frame) <= REQUEST_BYTES_DECODED_AT_ONCE_MAX:
            return _refusal(_read(frame, context), context, refusal)
        return await context.broker.long_work.submit(lambda: _large_refusal(frame, context, refusal))


def _may_alter_configs(context: AnyContext) -> bool:
    authorizer = context.broker.authorizer
    if authorizer is None:
        return True
    return late.Rights(authorizer, context).may(late.AclOperation.ALTER_CONFIGS, late.AclResourceType.CLUSTER)


def _may_need_trial(frame: memoryview) -> bool:
    """Whether a request of ordinary size may have such a name; larger ones are not read here."""
    if len(frame) > REQUEST_BYTES_DECODED_AT_ONCE_MAX:
        return False
    read = bytes(frame)
    return LISTENER_PREFIX.encode() in read or CORDON_KEY.encode() in read


def _names_loggers(request: IncrementalAlterConfigsRequest) -> bool:
    return any(one.resource_type == ConfigResourceType.BROKER_LOGGER for one in request.resources)


async def _set_log_levels(request: AnyMessage, context: AnyContext) -> bytes:
    """A request that names loggers; its other resources are forwarded one by one, in the broker's name.

    So the broker checks the client's rights on all of them.
    """
    header = context.header
    handle = load(header.api_key, context.broker.handlers)
    authorizer = context.broker.authorizer
    try:
        if authorizer is None:
            answer: AnyMessage = handle(request, context)
        else:
            check = cast("late.AnyCheck[object]", late.CHECKS[header.api_key])
            answer = check(handle, request, context, late.Rights(authorizer, context))
        if isinstance(answer, Pending):
            answer = await answer
    except RequestError as error:
        return _refusal(request, context, error)
    return encode_response(header.api_key, header.api_version, header.correlation_id, answer)


def _read(frame: memoryview, context: AnyContext) -> AnyMessage:
    header = context.header
    return decode_typed_request(header.api_key, header.api_version, frame, header.body_position)


def _large_refusal(frame: memoryview, context: AnyContext, error: RequestError) -> bytes:
    large = late.LargeRequest(context.header)
    try:
        large.decode(frame)
        return large.refuse(error)
    finally:
        large.free()


def _refusal(request: AnyMessage, context: AnyContext, error: RequestError) -> bytes:
    header = context.header
    answer = failures.answer(header.api_key, header.api_version, request, error)
    return encode_response(header.api_key, header.api_version, header.correlation_id, answer)
