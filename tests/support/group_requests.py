"""Requests about groups asked of their handlers as their bytes would be, with a coordinator in
memory behind them.
"""

from __future__ import annotations

import importlib
import inspect
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

from odradek.cluster.image import BrokerImage
from odradek.foundation.errors import CoordinatorNotAvailable
from odradek.handlers.table import HANDLERS
from odradek.protocol import codec, messages
from odradek.protocol.api import ApiKey
from odradek.protocol.framing import parse_request_header
from odradek.protocol.schema import REQUEST, fields_of, message_class
from tests.support.field_names import check_field_names
from tests.support.group_world import GroupWorld, image, topic_id


def versions(api: ApiKey) -> range:
    """The versions that are served."""
    handler = HANDLERS[api]
    return range(handler.version_min, handler.version_max + 1)


def supported(api: ApiKey, version: int, **fields: Any) -> dict[str, Any]:
    """Those of `fields` that this version of the request has."""
    names = {field.name for field in fields_of(message_class(api, version, REQUEST))}
    return {name: value for name, value in fields.items() if name in names}


async def ask(world: GroupWorld, api: ApiKey, version: int, **fields: Any) -> Any:
    """The answer to a request, both having gone through their bytes."""
    check_field_names()
    sent = codec.encode_request(api, version, 7, "client", messages.request(api, version, **fields))
    frame = memoryview(sent)[4:]
    header = parse_request_header(frame)
    request = codec.decode_typed_request(api, version, frame, header.body_position)
    context = SimpleNamespace(
        header=header,
        response=partial(messages.response, api, version),
        listener_name="PLAINTEXT",
        client_host="127.0.0.1",
        broker=SimpleNamespace(
            broker_id=0,
            images=world.images,
            groups=world.groups,
            clock=world.clock,
            settings=world.settings,
            authorizer=None,
            zookeeper_groups=None,
        ),
    )
    answer = importlib.import_module(f"odradek.handlers.{HANDLERS[api].module}").handle(request, context)
    if inspect.isawaitable(answer):
        answer = await answer
    frame = memoryview(codec.encode_response(api, version, 7, answer))[4:]
    _, message = codec.decode_response(api, version, frame)
    return message


def offsets_topic(world: GroupWorld, *, is_broker_there: bool = True) -> None:
    """Let the image have the offsets topic, led by broker 0."""
    made = image({"__consumer_offsets": world.log.partition_count(), "t": 4})
    brokers = {}
    if is_broker_there:
        brokers[0] = BrokerImage(id=0, endpoints={"PLAINTEXT": ("broker.test", 9092)}, rack=None, epoch=1)
    world.images.replace(replace(made, brokers=brokers))


async def refuse_topic() -> None:
    """An `ensure_topic` that fails."""
    raise CoordinatorNotAvailable("no broker has room")


__all__ = ["ask", "offsets_topic", "refuse_topic", "supported", "topic_id", "versions"]
