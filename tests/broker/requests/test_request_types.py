"""The types of requests are those that kio's classes give, and what is decoded has the fields of every version."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from odradek.broker.requests import request_types
from odradek.broker.requests.table import CONTROLLER_HANDLERS, HANDLERS, TELEMETRY_HANDLERS
from odradek.wire.protocol import messages
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.codec import decode_request, decode_typed_request, encode_request
from odradek.wire.protocol.framing import parse_request_header
from odradek.wire.protocol.requests import request_type
from odradek.wire.protocol.schema import versions_of

ALL = {**HANDLERS, **TELEMETRY_HANDLERS, **CONTROLLER_HANDLERS}
DECODED = sorted(api for api, row in ALL.items() if not row.takes_frame)


@pytest.mark.generated
def test_the_modules_are_the_ones_that_are_written() -> None:
    for home, sources in (
        (request_types.HOME, request_types.modules()),
        (request_types.RESPONSES_HOME, request_types.response_modules()),
    ):
        for name, source in sources.items():
            written = (home / f"{name}.py").read_text()
            assert ast.dump(ast.parse(written)) == ast.dump(ast.parse(source)), (
                "run python -m odradek.broker.requests.request_types"
            )


@pytest.mark.parametrize("api", DECODED, ids=lambda api: ApiKey(api).name)
def test_a_request_of_any_version_has_every_field(api: int) -> None:
    kind = request_type(api)
    for version in versions_of(api):
        frame = memoryview(encode_request(api, version, 1, None, messages.request(api, version)))[4:]
        position = parse_request_header(frame).body_position
        request: Any = decode_typed_request(api, version, frame, position)
        plain: Any = decode_request(api, version, frame, position)
        assert isinstance(request, kind)
        assert isinstance(request, type(plain))
        for field in kind.__annotations__:
            if field != "nested":
                value = getattr(request, field)
                assert not hasattr(plain, field) or value == getattr(plain, field)


def test_what_a_version_lacks_has_the_default_of_the_newest_that_has_it() -> None:
    fields = {"group_id": "g", "protocols": [{"name": "range", "metadata": b"x"}]}
    message = messages.request(ApiKey.JOIN_GROUP, 2, **fields)
    frame = memoryview(encode_request(ApiKey.JOIN_GROUP, 2, 1, None, message))[4:]
    position = parse_request_header(frame).body_position
    request: Any = decode_typed_request(ApiKey.JOIN_GROUP, 2, frame, position)
    assert (request.group_id, request.group_instance_id, request.reason) == ("g", None, None)
    topics = [{"name": "t", "partitions": [{"partition_index": 1, "committed_offset": 5}]}]
    message = messages.request(ApiKey.OFFSET_COMMIT, 2, group_id="g", topics=topics)
    frame = memoryview(encode_request(ApiKey.OFFSET_COMMIT, 2, 1, None, message))[4:]
    request = decode_typed_request(ApiKey.OFFSET_COMMIT, 2, frame, parse_request_header(frame).body_position)
    (topic,) = request.topics
    assert (topic.name, topic.topic_id) == ("t", None)
    assert topic.partitions[0].committed_leader_epoch == -1
