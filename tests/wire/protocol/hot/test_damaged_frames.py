"""Damaged frames: the decoders by hand read what the schemas read, or refuse it as they do, and take no memory for it.

Each sample is truncated after every byte, has every byte and every number replaced, and is followed by frames of random
bytes. The schemas are those of kio, read by `odradek.wire.protocol.reading`; of the tagged fields they know those that
the decoder by hand makes use of. DAMAGE_SEED=n takes other random bytes.
"""

from __future__ import annotations

import os
import random
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from odradek.foundation.errors import FrameError, InvalidRequest
from odradek.foundation.limits import REQUEST_ARRAY_ELEMENTS_MAX
from odradek.wire.protocol import messages
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.codec import encode_request, encode_response
from odradek.wire.protocol.framing import parse_request_header, parse_response_header
from odradek.wire.protocol.hot.produce import FIRST_FLEXIBLE
from odradek.wire.protocol.hot.replica_fetch import FETCH_VERSION
from odradek.wire.protocol.reading import Reader, structure_reader
from odradek.wire.protocol.schema import REQUEST, RESPONSE, STRUCTURE, fields_of, message_class
from odradek.wire.protocol.varint import encode_unsigned_varint
from tests.wire.protocol.hot.implementations import Implementation, each_implementation

SEED = int(os.environ.get("DAMAGE_SEED", "1"))
RANDOM_FRAMES = 400
RANDOM_BYTES_MAX = 160
# What a byte becomes: nothing, one, two, the ends of a byte's and of a varint's range.
BYTES = (0, 1, 2, 0x7F, 0x80, 0xFF)
# What stands for a length, a count or a tag: as a varint, as two bytes and as four.
NUMBERS = [
    *(encode_unsigned_varint(number) for number in (128, 2**14, 2**21, 2**31, 2**32 - 1)),
    b"\xff\xff\xff\xff\x7f",
    *(struct.pack(">h", number) for number in (-1, -2, 2**15 - 1)),
    *(struct.pack(">i", number) for number in (-1, -2, 2**31 - 1, -(2**31))),
]
TAGS = b"\x01\x09\x02ab"  # one unknown field
# Produce and Fetch change their layout in these versions.
PRODUCE_VERSIONS = (3, 8, 9, 12, 13)
FETCH_VERSIONS = (4, 5, 7, 9, 11, 12, 13, 15, 17, 18)
TOPIC_ID = UUID("12345678-1234-5678-1234-567812345678")
BYTES_FOR_A_BYTE = 100
BYTES_FOR_A_CALL = 64 * 1024


class Sample(NamedTuple):
    """A message as it was sent: its body begins at `position` of `frame`."""

    frame: bytes
    position: int


# --- what the schemas read ----------------------------------------------------------------------------------------


class Reduced:
    """A structure of kio whose tagged fields are unknown, except those in `known`."""

    def __init__(self, structure: Any, known: frozenset[str]) -> None:
        self.__flexible__ = structure.__flexible__
        self.fields = tuple(
            field._replace(structure=Reduced(field.structure, known))
            if field.wire_type == STRUCTURE and field.tag is None
            else field
            for field in fields_of(structure)
            if field.tag is None or field.name in known
        )

    def __call__(self, **values: Any) -> SimpleNamespace:
        return SimpleNamespace(**values)


@cache
def schema_reader(api_key: int, version: int, kind: str, *known: str) -> Reader:
    reader: Reader = structure_reader(Reduced(message_class(api_key, version, kind), frozenset(known)))
    return reader


def read_by_schema(reader: Reader, frame: memoryview, position: int) -> Any:
    """The message, None when the schemas refuse it."""
    try:
        return reader(frame, position, [REQUEST_ARRAY_ELEMENTS_MAX])[0]
    except (InvalidRequest, struct.error):
        return None


def milliseconds(value: timedelta | int) -> int:
    return value if isinstance(value, int) else round(value / timedelta(milliseconds=1))


def topic_key(topic: Any, name: str) -> str | bytes:
    if hasattr(topic, "topic_id"):
        return topic.topic_id.bytes if topic.topic_id else bytes(16)
    return str(getattr(topic, name))


# --- damage -------------------------------------------------------------------------------------------------------


def damaged(sample: Sample) -> Iterator[bytes]:
    """The sample whole, truncated after every byte of its body, and with every byte and number of it replaced."""
    frame, start = sample
    yield frame
    for at in range(start, len(frame)):
        yield frame[:at]
        for byte in (*BYTES, frame[at] + 1 & 0xFF, frame[at] - 1 & 0xFF):
            yield frame[:at] + bytes((byte,)) + frame[at + 1 :]
        for number in NUMBERS:
            yield frame[:at] + number + frame[at + 1 :]
            yield frame[:at] + number + frame[at + len(number) :]
        yield frame[:at] + TAGS + frame[at + 1 :]


def random_frames(sample: Sample) -> Iterator[bytes]:
    """After the sample's header: bytes of all kinds, and bytes of which most are small, as lengths are."""
    chance = random.Random(SEED)
    for turn in range(RANDOM_FRAMES):
        size = chance.randrange(RANDOM_BYTES_MAX)
        body = (
            chance.randbytes(size)
            if turn % 2
            else bytes(chance.choice((0, 0, 0, 1, 2, 3)) for _ in range(size))
        )
        yield sample.frame[: sample.position] + body
        cut = chance.randrange(sample.position, len(sample.frame))
        yield sample.frame[:cut] + body


def within(content: bytes) -> memoryview:
    """The frame in the middle of a larger buffer, as a connection receives it."""
    return memoryview(b"\0" + content + bytes(range(64)))[1 : 1 + len(content)]


def check_agreement(
    sample: Sample,
    by_hand: Callable[[memoryview], Any],
    by_schema: Callable[[memoryview], Any],
    refusal: type[Exception],
) -> None:
    """Each damaged frame gives the same values both ways, or `refusal` by hand and None by the schemas."""
    accepted = refused = 0
    for content in (*damaged(sample), *random_frames(sample)):
        wanted = by_schema(memoryview(content))
        try:
            found = by_hand(within(content))
        except refusal:
            found = None
        except Exception as failure:
            pytest.fail(f"{failure!r} for {content.hex()} (DAMAGE_SEED={SEED})")
        assert found == wanted, f"{content.hex()} (DAMAGE_SEED={SEED})"
        accepted, refused = accepted + (wanted is not None), refused + (wanted is None)
    assert accepted > 100 and refused > 100, "the damage asks both"


def check_memory(
    samples: list[Sample], by_hand: Callable[[memoryview], Any], refusal: type[Exception]
) -> None:
    """A frame takes memory for what it has, not for what it announces."""
    for sample in samples:
        for at in range(sample.position, len(sample.frame)):
            for number in (
                encode_unsigned_varint(2**32 - 1),
                struct.pack(">i", 2**31 - 1),
                encode_unsigned_varint(2**19),
            ):
                for filler in (b"\0", b"\1", b"\2"):
                    frame = memoryview(sample.frame[:at] + number + filler * 500)
                    tracemalloc.start()
                    try:
                        by_hand(frame)
                    except refusal:
                        pass
                    finally:
                        _, peak = tracemalloc.get_traced_memory()
                        tracemalloc.stop()
                    assert peak < BYTES_FOR_A_CALL + BYTES_FOR_A_BYTE * len(frame), bytes(frame).hex()


# --- Produce --------------------------------------------------------------------------------------------------------


def produce_samples(version: int) -> list[Sample]:
    return [
        _request(
            ApiKey.PRODUCE,
            version,
            acks=-1,
            timeout=1500,
            transactional_id=transactional_id,
            topic_data=[
                {
                    "name": name,
                    "topic_id": TOPIC_ID,
                    "partition_data": [{"index": index, "records": records} for index, records in partitions],
                }
                for name, partitions in topics
            ],
        )
        for transactional_id, topics in (
            (None, [("orders", [(3, b"r" * 20)])]),
            ("tx-é", [("a", [(0, b"rr"), (1, None)]), ("b", [])]),
        )
    ]


def _request(api_key: int, version: int, **fields: Any) -> Sample:
    frame = encode_request(api_key, version, 1, "me", messages.request(api_key, version, **fields))[4:]
    return Sample(frame, parse_request_header(memoryview(frame)).body_position)


def produce_by_hand(hot: Implementation, version: int, frame: memoryview, position: int) -> Any:
    short = None if version < FIRST_FLEXIBLE else hot.parse_one_partition(version, frame, position)
    try:
        parsed = hot.parse_produce_request(version, frame, position)
    except InvalidRequest:
        assert short is None, "the short path takes what the long one refuses"
        raise
    if short is not None:
        ((raw, key, partitions),) = parsed.topics
        assert short == (parsed.acks, raw, key, *partitions[0], parsed.timeout_ms)
        assert (parsed.transactional_id, len(partitions)) == (None, 1)
    for topic in parsed.topics:
        text = topic.key if isinstance(topic.key, bytes) else topic.key.encode()
        assert topic.raw.endswith(text)
    return (*parsed[:3], [(topic.key, topic.partitions) for topic in parsed.topics])


def produce_by_schema(version: int, frame: memoryview, position: int) -> Any:
    request = read_by_schema(schema_reader(ApiKey.PRODUCE, version, REQUEST), frame, position)
    return request and (
        request.transactional_id,
        request.acks,
        milliseconds(request.timeout),
        [
            (topic_key(topic, "name"), [(one.index, one.records) for one in topic.partition_data])
            for topic in request.topic_data
        ],
    )


@each_implementation
@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_damaged_produce_requests(hot: Implementation, version: int) -> None:
    for sample in produce_samples(version):
        check_agreement(
            sample,
            lambda frame, at=sample.position: produce_by_hand(hot, version, frame, at),  # type: ignore[misc]
            lambda frame, at=sample.position: produce_by_schema(version, frame, at),  # type: ignore[misc]
            InvalidRequest,
        )


# --- Fetch ----------------------------------------------------------------------------------------------------------


def fetch_samples(version: int) -> list[Sample]:
    topic = {
        "topic": "orders",
        "topic_id": TOPIC_ID,
        "partitions": [
            {
                "partition": 1,
                "current_leader_epoch": 2,
                "fetch_offset": 300,
                "last_fetched_epoch": 4,
                "log_start_offset": 5,
                "partition_max_bytes": 600,
            }
        ],
    }
    forgotten = {"topic": "b", "topic_id": TOPIC_ID, "partitions": [1, 2]}
    fields = {"max_wait": 500, "min_bytes": 1, "max_bytes": 2**20, "session_id": 77, "session_epoch": 3}
    replica = {"replica_id": 3, "replica_state": {"replica_id": 3, "replica_epoch": 9}}
    return [
        _request(ApiKey.FETCH, version, **fields, topics=[topic]),
        _request(
            ApiKey.FETCH,
            version,
            **fields,
            **replica,
            topics=[topic, {**topic, "topic": "c", "partitions": []}],
            forgotten_topics_data=[forgotten],
            rack_id="rack",
        ),
    ]


def fetch_by_schema(version: int, frame: memoryview, position: int) -> Any:
    reader = schema_reader(ApiKey.FETCH, version, REQUEST, "replica_state")
    request = read_by_schema(reader, frame, position)
    if request is None:
        return None
    state = getattr(request, "replica_state", None)
    return (
        milliseconds(request.max_wait),
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        getattr(request, "session_id", 0),
        getattr(request, "session_epoch", -1),
        [
            (
                topic_key(topic, "topic"),
                one.partition,
                one.fetch_offset,
                one.partition_max_bytes,
                getattr(one, "current_leader_epoch", -1),
                getattr(one, "last_fetched_epoch", -1),
                getattr(one, "log_start_offset", -1),
            )
            for topic in request.topics
            for one in topic.partitions
        ],
        [
            (topic_key(topic, "topic"), index)
            for topic in getattr(request, "forgotten_topics_data", ())
            for index in topic.partitions
        ],
        state.replica_id if state else request.replica_id,
        state.replica_epoch if state else -1,
        getattr(request, "rack_id", ""),
    )


@each_implementation
@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_damaged_fetch_requests(hot: Implementation, version: int) -> None:
    for sample in fetch_samples(version):
        check_agreement(
            sample,
            lambda frame, at=sample.position: tuple(hot.parse_fetch_request(version, frame, at)),  # type: ignore[misc]
            lambda frame, at=sample.position: fetch_by_schema(version, frame, at),  # type: ignore[misc]
            InvalidRequest,
        )


# --- a follower's Fetch -----------------------------------------------------------------------------------------------


def answer_samples() -> list[Sample]:
    row = {
        "partition_index": 3,
        "error_code": 6,
        "high_watermark": 400,
        "log_start_offset": 2,
        "last_stable_offset": 400,
        "aborted_transactions": [{"producer_id": 5, "first_offset": 6}],
        "records": b"r" * 12,
    }
    plain = {**row, "error_code": 0, "aborted_transactions": None, "records": None}
    tagged = {
        "diverging_epoch": {"epoch": 3, "end_offset": 9},
        "current_leader": {"leader_id": 1, "leader_epoch": 2},
    }
    return [
        _answer([{"topic_id": TOPIC_ID, "partitions": [plain]}]),
        _answer([{"topic_id": TOPIC_ID, "partitions": [{**row, **tagged}, plain]}, {"topic_id": None}]),
    ]


def _answer(responses: list[dict[str, Any]]) -> Sample:
    node = {"node_id": 1, "host": "h", "port": 9092, "rack": None}
    message = messages.response(
        ApiKey.FETCH, FETCH_VERSION, session_id=9, responses=responses, node_endpoints=[node]
    )
    return Sample(encode_response(ApiKey.FETCH, FETCH_VERSION, 7, message)[4:], 4)


def answer_by_schema(frame: memoryview) -> Any:
    try:
        _, position = parse_response_header(frame, api_key=ApiKey.FETCH, api_version=FETCH_VERSION)
    except InvalidRequest:
        return None
    reader = schema_reader(ApiKey.FETCH, FETCH_VERSION, RESPONSE, "diverging_epoch")
    answer = read_by_schema(reader, frame, position)
    return answer and (
        answer.error_code,
        answer.session_id,
        [
            (
                topic_key(topic, "topic"),
                one.partition_index,
                one.error_code,
                one.high_watermark,
                one.log_start_offset,
                one.records or b"",
                one.diverging_epoch.epoch,
                one.diverging_epoch.end_offset,
            )
            for topic in answer.responses
            for one in topic.partitions
        ],
    )


@pytest.mark.thorough
@each_implementation
def test_damaged_answers_to_a_follower(hot: Implementation) -> None:
    for sample in answer_samples():
        check_agreement(
            sample, lambda frame: tuple(hot.parse_fetch_answer(frame)), answer_by_schema, FrameError
        )


# --- memory -----------------------------------------------------------------------------------------------------------


@each_implementation
@pytest.mark.parametrize("version", (8, 12, 13))
def test_a_produce_request_takes_memory_for_what_it_has(hot: Implementation, version: int) -> None:
    samples = produce_samples(version)
    position = samples[0].position
    check_memory(samples, lambda frame: hot.parse_produce_request(version, frame, position), InvalidRequest)


@each_implementation
@pytest.mark.parametrize("version", (11, 12, 17))
def test_a_fetch_request_takes_memory_for_what_it_has(hot: Implementation, version: int) -> None:
    samples = fetch_samples(version)
    position = samples[0].position
    check_memory(samples, lambda frame: hot.parse_fetch_request(version, frame, position), InvalidRequest)


@pytest.mark.thorough
@each_implementation
def test_an_answer_takes_memory_for_what_it_has(hot: Implementation) -> None:
    check_memory(answer_samples(), hot.parse_fetch_answer, FrameError)


# --- the teeth --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["reads another value", "refuses too little", "fails otherwise"])
def test_a_decoder_that_differs_is_found(kind: str) -> None:
    sample = produce_samples(13)[0]

    def by_schema(frame: memoryview) -> Any:
        return produce_by_schema(13, frame, sample.position)

    def by_hand(frame: memoryview) -> Any:
        read = by_schema(frame)
        if read is None and kind == "refuses too little":
            return ()
        if read is None and kind == "fails otherwise":
            raise IndexError
        if read is None:
            raise InvalidRequest("damaged")
        return (*read[:2], 0, read[3]) if kind == "reads another value" else read

    with pytest.raises((AssertionError, pytest.fail.Exception), match="DAMAGE_SEED"):
        check_agreement(sample, by_hand, by_schema, InvalidRequest)


def test_a_decoder_that_believes_a_count_is_found() -> None:
    def by_hand(frame: memoryview) -> Any:
        return [None] * 2**20

    with pytest.raises(AssertionError):
        check_memory(produce_samples(13)[:1], by_hand, InvalidRequest)
