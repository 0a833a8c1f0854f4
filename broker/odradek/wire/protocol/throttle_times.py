"""The throttle time in answers that are packed already: 0, until a quota says otherwise (KIP-219).

Most answers begin with it. Produce has it behind its topics, and ApiVersions behind its table. Answers of old versions
have none.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import cache
from struct import Struct
from typing import TYPE_CHECKING, Final, cast

from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.codec import decode_response, encode_response
from odradek.wire.protocol.frames import Frame
from odradek.wire.protocol.framing import response_header_is_flexible
from odradek.wire.protocol.hot.produce import FIRST_FLEXIBLE as PRODUCE_FLEXIBLE
from odradek.wire.protocol.hot.produce import FIRST_WITH_TOPIC_IDS as PRODUCE_WITH_TOPIC_IDS
from odradek.wire.protocol.hot.produce import ONE_PARTITION_BYTES
from odradek.wire.protocol.messages import Message
from odradek.wire.protocol.schema import RESPONSE, fields_of, message_class

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_FIELD: Final = "throttle_time"
_INT: Final = Struct(">i")
# Size and correlation id.
_HEAD_BYTES: Final = 8


def with_throttle_time(
    api_key: int, api_version: int, answer: Message | Frame | None, milliseconds: int
) -> Message | Frame | None:
    """The answer with its throttle time at least this; the same where it has no field for it."""
    if answer is None or not milliseconds:
        return answer
    if not isinstance(answer, bytes | bytearray | memoryview | list):
        if not hasattr(answer, _FIELD) or milliseconds <= throttle_time_of(api_key, api_version, answer):
            return answer
        return cast(
            Message,
            replace(cast("DataclassInstance", answer), throttle_time=timedelta(milliseconds=milliseconds)),
        )
    position = _position(api_key, api_version)
    if position is not None:
        return _patch_frame(answer, position, milliseconds)
    if isinstance(answer, list) or not _has_field(api_key, api_version):
        return answer
    return _pack_again(api_key, api_version, bytes(answer), milliseconds)


def throttle_time_of(api_key: int, api_version: int, answer: Message | Frame | None) -> int:
    """The throttle time of an answer in milliseconds, where it is known without decoding."""
    if isinstance(answer, bytes | bytearray | memoryview):
        position = _position(api_key, api_version)
        return 0 if position is None else int(_INT.unpack_from(answer, position)[0])
    told = getattr(answer, _FIELD, None)
    return told // timedelta(milliseconds=1) if isinstance(told, timedelta) else int(told or 0)


@cache
def _position(api_key: int, api_version: int) -> int | None:
    """Where a frame begins with the field; None where it does not."""
    fields = fields_of(message_class(api_key, api_version, RESPONSE))
    if not fields or fields[0].name != _FIELD:
        return None
    return _HEAD_BYTES + int(response_header_is_flexible(api_key, api_version))


@cache
def _has_field(api_key: int, api_version: int) -> bool:
    return any(field.name == _FIELD for field in fields_of(message_class(api_key, api_version, RESPONSE)))


def _patch_frame(frame: Frame, position: int, milliseconds: int) -> Frame:
    first = bytearray(cast(bytes, frame[0] if isinstance(frame, list) else frame))
    _INT.pack_into(first, position, max(milliseconds, _INT.unpack_from(first, position)[0]))
    return [first, *frame[1:]] if isinstance(frame, list) else bytes(first)


def _pack_again(api_key: int, api_version: int, frame: bytes, milliseconds: int) -> bytes:
    """For Produce and ApiVersions: where the field is depends on all that is before it."""
    if api_key == ApiKey.PRODUCE and _is_of_one_partition(api_version, frame):
        # It ends with the throttle time and no tags.
        return frame[:-5] + _INT.pack(milliseconds) + frame[-1:]
    correlation_id, message = decode_response(api_key, api_version, memoryview(frame)[4:])
    told = replace(message, throttle_time=timedelta(milliseconds=milliseconds))
    return encode_response(api_key, api_version, correlation_id, told)


def _is_of_one_partition(api_version: int, frame: bytes) -> bool:
    """Whether this is a Produce answer of one partition without a message and without tags: one of this length is."""
    if api_version < PRODUCE_FLEXIBLE or len(frame) < _HEAD_BYTES + 3 or frame[9] != 2:
        return False
    name_bytes = 16 if api_version >= PRODUCE_WITH_TOPIC_IDS else frame[10]
    return len(frame) == ONE_PARTITION_BYTES + name_bytes and frame[10 + name_bytes] == 2
