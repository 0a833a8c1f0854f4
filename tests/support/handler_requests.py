"""Requests asked of their handlers as their bytes would be, without a broker: each is given the parts that it needs."""

from __future__ import annotations

import importlib
import inspect
from functools import partial
from types import SimpleNamespace
from typing import Any

from odradek.broker.requests.table import HANDLERS
from odradek.foundation.errors import CoordinatorNotAvailable
from odradek.foundation.ids import ANONYMOUS
from odradek.wire.protocol import codec, messages
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.framing import parse_request_header
from odradek.wire.protocol.schema import REQUEST, fields_of, message_class
from tests.support.coordinator_world import GroupWorld, image
from tests.support.field_names import check_field_names


def versions(api: ApiKey) -> range:
    """The versions that are served."""
    handler = HANDLERS[api]
    return range(handler.version_min, handler.version_max + 1)


def supported(api: ApiKey, version: int, **fields: Any) -> dict[str, Any]:
    """Those of `fields` that this version of the request has."""
    names = {field.name for field in fields_of(message_class(api, version, REQUEST))}
    return {name: value for name, value in fields.items() if name in names}


async def ask_handler(
    broker: SimpleNamespace, api: ApiKey, version: int, *, listener_name: str = "PLAINTEXT", **fields: Any
) -> Any:
    """The answer to a request, both having gone through their bytes."""
    check_field_names()
    sent = codec.encode_request(api, version, 7, "client", messages.request(api, version, **fields))
    frame = memoryview(sent)[4:]
    header = parse_request_header(frame)
    context = SimpleNamespace(
        header=header,
        response=partial(messages.response, api, version),
        listener_name=listener_name,
        principal=ANONYMOUS,
        client_host="192.0.2.7",
        named_twice=frozenset(),
        broker=broker,
    )
    request = codec.decode_typed_request(api, version, frame, header.body_position)
    answer = importlib.import_module(f"odradek.broker.requests.{HANDLERS[api].module}").handle(
        request, context
    )
    if inspect.isawaitable(answer):
        answer = await answer
    if not isinstance(answer, bytes):
        answer = codec.encode_response(api, version, 7, answer)
    correlation_id, message = codec.decode_response(api, version, memoryview(answer)[4:])
    assert correlation_id == 7
    return message


async def ask(world: GroupWorld, api: ApiKey, version: int, **fields: Any) -> Any:
    """The answer of a coordinator of groups."""
    broker = SimpleNamespace(
        broker_id=0,
        images=world.images,
        groups=world.groups,
        clock=world.clock,
        settings=world.settings,
        authorizer=None,
        zookeeper_groups=None,
        optional_long_work=None,
    )
    return await ask_handler(broker, api, version, **fields)


def offsets_topic(world: GroupWorld, *, is_broker_there: bool = True) -> None:
    """Let the image have the offsets topic, led by broker 0."""
    topics = {"__consumer_offsets": world.log.partition_count(), "t": 4}
    world.images.replace(image(topics, brokers=(0,) if is_broker_there else ()))


async def refuse_topic() -> None:
    """An `ensure_topic` that fails."""
    raise CoordinatorNotAvailable("no broker has room")
