"""Large requests are answered whole and in order, in parts between which others are served."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
from typing import Any

import pytest

from odradek.broker.requests import dispatch, long_requests
from odradek.broker.requests.table import HANDLERS
from odradek.foundation.rate_limited_log import RateLimitedLog
from odradek.foundation.turn_limits import REQUEST_ELEMENTS_PER_TURN_MAX
from odradek.wire.protocol import codec
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.messages import request
from odradek.wire.protocol.schema import REQUEST, RESPONSE, fields_of, message_class
from tests.support.large_requests import ROWS
from tests.support.whole_broker import WholeBroker, decoded

COUNT = 4 * REQUEST_ELEMENTS_PER_TURN_MAX
IN_PARTS = (
    "metadata",
    "metadata of ids",
    "find coordinator",
    "offset fetch of groups",
    "list offsets",
    "describe configs",
    "share group describe",
)

# APIs with arrays that are not split by `long_requests`, each for one reason.
_OF_ONE_CHANGE = """ADD_PARTITIONS_TO_TXN ALTER_CLIENT_QUOTAS ALTER_CONFIGS ALTER_PARTITION_REASSIGNMENTS
ALTER_USER_SCRAM_CREDENTIALS CREATE_ACLS CREATE_PARTITIONS CREATE_TOPICS DELETE_ACLS ELECT_LEADERS
INCREMENTAL_ALTER_CONFIGS UPDATE_FEATURES WRITE_TXN_MARKERS"""
_OF_ONE_GROUP = "CONSUMER_GROUP_HEARTBEAT JOIN_GROUP SHARE_GROUP_HEARTBEAT STREAMS_GROUP_HEARTBEAT SYNC_GROUP"
_OF_ONE_FILTER = """CREATE_DELEGATION_TOKEN DESCRIBE_CLIENT_QUOTAS DESCRIBE_DELEGATION_TOKEN LIST_CONFIG_RESOURCES
LIST_GROUPS LIST_TRANSACTIONS"""
_IN_PARTS_BY_THEIR_HANDLER = """ALTER_REPLICA_LOG_DIRS DESCRIBE_LOG_DIRS DESCRIBE_TOPIC_PARTITIONS FETCH
LIST_PARTITION_REASSIGNMENTS METADATA PRODUCE SHARE_ACKNOWLEDGE SHARE_FETCH"""


def _names_in(message: Any) -> list[str]:
    """Every name of the rows, in the order of the answer."""
    found: list[str] = []
    for field in dataclasses.fields(message):
        value = getattr(message, field.name)
        for element in value if isinstance(value, tuple) else (value,):
            if dataclasses.is_dataclass(element):
                found += _names_in(element)
            elif isinstance(element, str) and len(element) == 8 and element.startswith("n0"):
                found.append(element)
    return found


async def _sent(whole: WholeBroker, body: memoryview) -> Any:
    answer = whole.dispatcher(whole.connection, body)
    assert inspect.isawaitable(answer)
    return await answer


async def _turns_until(answer: Any) -> tuple[Any, int]:
    """The answer, and the turns in which the loop served others at the same time."""
    waiting = asyncio.ensure_future(answer)
    turns = 0
    while not waiting.done():
        await asyncio.sleep(0)
        turns += 1
    return waiting.result(), turns


@pytest.mark.parametrize("name", IN_PARTS)
async def test_others_are_served_between_the_parts_of_a_large_request(name: str) -> None:
    whole = await WholeBroker.start()
    row = ROWS[name]
    sent = whole.dispatcher(whole.connection, row.body(COUNT))
    assert inspect.isawaitable(sent)
    answer, turns = await _turns_until(sent)
    assert turns >= COUNT // REQUEST_ELEMENTS_PER_TURN_MAX
    names = _names_in(decoded(row.api, row.version, answer))
    if name != "metadata of ids":
        assert sorted(names) == [f"n{number:07}" for number in range(COUNT)]


@pytest.mark.parametrize("count", [COUNT, REQUEST_ELEMENTS_PER_TURN_MAX + 50])
async def test_many_large_requests_have_one_part_in_each_turn(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of requests that are too short for the thread."""
    whole = await WholeBroker.start()
    row = ROWS["list offsets"]
    parts = 0
    answer_part = dispatch.Dispatcher._answer_part

    def counting(*arguments: Any) -> Any:
        nonlocal parts
        parts += 1
        return answer_part(*arguments)

    monkeypatch.setattr(dispatch.Dispatcher, "_answer_part", counting)
    sent = [whole.dispatcher(whole.connection, row.body(count)) for _ in range(10)]
    answers = asyncio.gather(*(_awaited(one) for one in sent))
    begun = parts
    in_turns = []
    while not answers.done():
        before = parts
        await asyncio.sleep(0)
        in_turns.append(parts - before)
    assert begun == 0
    assert sum(in_turns) == 10 * -(-count // REQUEST_ELEMENTS_PER_TURN_MAX)
    assert max(in_turns) == 1
    for answer in answers.result():
        assert len(_names_in(decoded(row.api, row.version, answer))) == count


async def _awaited(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer


async def test_a_small_request_is_answered_at_once() -> None:
    whole = await WholeBroker.start()
    for name in IN_PARTS[:-1]:
        if name != "find coordinator":  # It makes its topic first.
            assert isinstance(whole.dispatcher(whole.connection, ROWS[name].body(20)), bytes), name


async def test_a_topic_that_stands_in_several_parts_is_answered_once() -> None:
    count = 10 * REQUEST_ELEMENTS_PER_TURN_MAX
    asked = request(
        ApiKey.OFFSET_FETCH, 5, group_id="g", topics=[{"name": "t", "partition_indexes": list(range(count))}]
    )
    split = long_requests.split_of(ApiKey.OFFSET_FETCH, asked)
    assert split is not None
    parts = long_requests.parts_of(asked, split)
    assert [len(part.topics[0].partition_indexes) for part in parts] == [REQUEST_ELEMENTS_PER_TURN_MAX] * 10  # type: ignore[attr-defined]
    whole = await WholeBroker.start()
    await whole.broker.coordinators.groups.ensure_topic()
    await asyncio.sleep(1)
    body = memoryview(codec.encode_request(ApiKey.OFFSET_FETCH, 5, 7, "c", asked))[4:]
    answer = decoded(ApiKey.OFFSET_FETCH, 5, await _sent(whole, body))
    (topic,) = answer.topics
    assert [one.partition_index for one in topic.partitions] == list(range(count))


def test_each_split_names_arrays_of_its_api() -> None:
    for api, splits in long_requests.SPLITS.items():
        for kind, paths in ((REQUEST, "request"), (RESPONSE, "answer")):
            for split in splits:
                assert any(
                    _has_path(message_class(api, version, kind), getattr(split, paths))
                    for version in (0, 1, *range(3, 10))
                    if _exists(api, version, kind)
                ), (api, split)


def test_an_api_with_arrays_is_split_or_has_a_reason() -> None:
    has_arrays = {
        ApiKey(api)
        for api, handler in HANDLERS.items()
        if any(field.is_array for field in fields_of(message_class(api, handler.version_max, REQUEST)))
    }
    whole = " ".join((_OF_ONE_CHANGE, _OF_ONE_GROUP, _OF_ONE_FILTER, _IN_PARTS_BY_THEIR_HANDLER)).split()
    assert sorted(one.name for one in has_arrays - set(long_requests.SPLITS)) == sorted(whole)


def _exists(api: int, version: int, kind: str) -> bool:
    try:
        message_class(api, version, kind)
    except Exception:
        return False
    return True


def _has_path(structure: Any, path: tuple[str, ...]) -> bool:
    for name in path:
        field = next((one for one in fields_of(structure) if one.name == name), None)
        if field is None or not field.is_array:
            return False
        structure = field.structure
    return True


async def test_a_large_request_that_cannot_be_read_ends_its_connection() -> None:
    from odradek.foundation.errors import InvalidRequest

    whole = await WholeBroker.start()
    body = ROWS["metadata"].body(COUNT)[:-20]
    with pytest.raises(InvalidRequest):
        await _sent(whole, body)
    assert whole.broker.counters.malformed == 1


async def test_a_turn_that_takes_too_long_is_counted_and_named(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines_of_its_own = RateLimitedLog(dispatch.logger, "requests", now=lambda: 100.0, lines_per_minute_max=10)
    monkeypatch.setattr(dispatch, "_long_turns", lines_of_its_own)
    caplog.set_level("INFO", logger=dispatch.logger.name)
    from time import sleep

    whole = await WholeBroker.start()

    def slow(_: object, __: object) -> None:
        sleep(0.03)

    async def slow_later(request: object, context: object) -> None:
        await asyncio.sleep(0)
        sleep(0.03)

    from odradek.broker.requests.dispatch import Dispatcher
    from odradek.network.pending import Pending

    handles: list[Any] = [slow, lambda request, context: Pending(slow_later(request, context))]
    for number, handle in enumerate(handles, 1):
        dispatcher = Dispatcher(whole.broker.parts, handles={ApiKey.LIST_GROUPS: handle})
        body = memoryview(
            codec.encode_request(ApiKey.LIST_GROUPS, 5, 7, "c", request(ApiKey.LIST_GROUPS, 5))
        )[4:]
        sent = dispatcher(whole.connection, body)
        if inspect.isawaitable(sent):
            await sent
        assert whole.broker.counters.by_api[ApiKey.LIST_GROUPS].long_turns == number
    lines = [one.getMessage() for one in caplog.records if "held up" in one.getMessage()]
    assert lines and all(line.startswith("LIST_GROUPS version 5 from") for line in lines)
