"""Requests with many elements leave the loop to others in between, also those that are planned and written as one.

Turns are counted and not timed. What is checked, written and answered is as for a small request.
"""

from __future__ import annotations

import asyncio
import inspect
import random
from typing import Any

import pytest

from odradek.broker.replication.blocking import BlockingWork
from odradek.broker.requests import list_transactions, long_requests
from odradek.foundation import errors
from odradek.foundation.turn_limits import (
    FETCH_SESSION_PARTITIONS_MAX,
    PARTITIONS_ANSWERED_AT_ONCE_MAX,
    REQUEST_ELEMENTS_PER_TURN_MAX,
)
from odradek.security.authorization.acl_matching import AclIndex
from odradek.storage.lookup import OpenedBatch
from odradek.wire.protocol import codec, messages
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.errors import code_of
from tests.support.large_requests import ROWS, LargeRequest, names
from tests.support.thread_work import where_called
from tests.support.whole_broker import START_MS, WholeBroker, batch, decoded

COUNT = 8 * REQUEST_ELEMENTS_PER_TURN_MAX
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:root",
}
INVALID_REQUEST = code_of(errors.InvalidRequest)


async def _turns(whole: WholeBroker, row: LargeRequest, count: int) -> tuple[Any, int]:
    """The decoded answer, and the turns in which others were served."""
    sent = whole.broker.listeners[0]._dispatch(whole.connection, row.body(count))
    assert inspect.isawaitable(sent)
    waiting = asyncio.ensure_future(_awaited(sent))
    turns = 0
    while not waiting.done():
        await asyncio.sleep(0)
        turns += 1
    answer = waiting.result()
    return decoded(row.api, row.version, b"".join(answer) if isinstance(answer, list) else answer), turns


async def _awaited(sent: Any) -> Any:
    return await sent


@pytest.mark.parametrize(
    "name",
    [
        "add partitions to transaction",
        "alter client quotas",
        "alter configs",
        "alter configs of groups",
        "alter reassignments",
        "alter scram",
        "create partitions",
        "create topics",
        "describe topic partitions",
        "elect leaders",
        "fetch",
        "list reassignments",
        "produce",
        "write transaction markers",
    ],
)
async def test_others_are_served_while_a_request_is_planned(name: str) -> None:
    whole = await WholeBroker.start()
    # The answer for a new topic has all of its settings.
    count = COUNT // 5 if name == "create topics" else COUNT
    _, turns = await _turns(whole, ROWS[name], count)
    assert turns >= count // REQUEST_ELEMENTS_PER_TURN_MAX
    await whole.broker.stop()


@pytest.mark.parametrize("principal", ["User:root", "User:stranger"])
@pytest.mark.parametrize(
    "name", ["create acls", "delete acls", "create topics", "create partitions", "fetch", "produce"]
)
async def test_others_are_served_while_rights_are_looked_at(name: str, principal: str) -> None:
    whole = await WholeBroker.start(AUTHORIZER)
    whole.connection.principal = principal
    count = COUNT // 5 if name == "create topics" else COUNT
    _, turns = await _turns(whole, ROWS[name], count)
    if not ("acls" in name and principal != "User:root"):
        assert turns >= count // REQUEST_ELEMENTS_PER_TURN_MAX
    await whole.broker.stop()


async def test_acls_of_a_large_request_are_there_and_go_together() -> None:
    whole = await WholeBroker.start(AUTHORIZER)
    whole.connection.principal = "User:root"
    made, _ = await _turns(whole, ROWS["create acls"], 1000)
    assert [one.error_code for one in made.results] == [0] * 1000
    index = whole.broker.images.current.acls
    assert index is not None and len(index) == 1000
    fields = ROWS["delete acls"].fields(1)
    fields["filters"][0]["resource_name_filter"] = None
    deleted, turns = await _turns(whole, _sent(ApiKey.DELETE_ACLS, 3, **fields), 0)
    assert len(deleted.filter_results[0].matching_acls) == 1000
    assert turns >= 1000 // REQUEST_ELEMENTS_PER_TURN_MAX
    assert not whole.broker.images.current.acls
    await whole.broker.stop()


async def test_an_acl_costs_no_look_at_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = await WholeBroker.start(AUTHORIZER)
    whole.connection.principal = "User:root"
    await _turns(whole, ROWS["create acls"], 300)
    counted: list[object] = []

    def count(index: AclIndex) -> int:
        counted.append(index)
        return 300

    monkeypatch.setattr(AclIndex, "__len__", count)
    await _turns(whole, ROWS["create acls"], 600)
    assert len(counted) < 10
    await whole.broker.stop()


async def test_quotas_of_a_large_request_are_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = await WholeBroker.start()
    writer = whole.broker.control.controller.writer
    writes: list[int] = []
    write = writer.write

    async def counted(operations: Any) -> None:
        writes.append(len(operations))
        await write(operations)

    monkeypatch.setattr(writer, "write", counted)
    answer, _ = await _turns(whole, ROWS["alter client quotas"], 2000)
    assert [one.error_code for one in answer.entries] == [0] * 2000
    assert writes == [2000]
    assert len(whole.broker.images.current.client_configs) == 2000
    await whole.broker.stop()


@pytest.mark.thorough
async def test_more_changes_than_kafka_writes_together_change_nothing() -> None:
    whole = await WholeBroker.start()
    answer, _ = await _turns(whole, ROWS["alter client quotas"], 10_001)
    assert {one.error_code for one in answer.entries} == {code_of(errors.PolicyViolation)}
    assert not whole.broker.images.current.client_configs
    await whole.broker.stop()


# --- elements that are named twice ------------------------------------------------------------------------------


def _sent(api: ApiKey, version: int, **fields: Any) -> LargeRequest:
    return LargeRequest(api, version, lambda _: fields)


FILLING = names(1500)


async def test_a_partition_of_two_parts_is_refused_once() -> None:
    whole = await WholeBroker.start()
    await whole.create_topic("t")
    asked = [{"name": "t", "partitions": [{"partition_index": 0, "timestamp": -1}]}]
    others = [{"name": one, "partitions": [{"partition_index": 0, "timestamp": -1}]} for one in FILLING]
    row = _sent(ApiKey.LIST_OFFSETS, 9, replica_id=-1, isolation_level=0, topics=[*asked, *others, *asked])
    answer, _ = await _turns(whole, row, 0)
    found = [one.partitions[0].error_code for one in answer.topics if one.name == "t"]
    assert found == [INVALID_REQUEST]
    assert len(answer.topics) == len(FILLING) + 1
    await whole.broker.stop()


async def test_a_topic_of_two_parts_is_not_deleted() -> None:
    whole = await WholeBroker.start()
    await whole.create_topic("t")
    asked = [{"name": one, "topic_id": None} for one in ("t", *FILLING, "t")]
    answer, _ = await _turns(whole, _sent(ApiKey.DELETE_TOPICS, 6, topics=asked, timeout=1000), 0)
    assert [one.error_code for one in answer.responses if one.name == "t"] == [INVALID_REQUEST]
    assert "t" in whole.broker.images.current.topics
    await whole.broker.stop()


async def test_a_user_of_two_parts_is_a_duplicate() -> None:
    whole = await WholeBroker.start()
    asked = [{"name": one} for one in ("u", *FILLING, "u")]
    answer, _ = await _turns(whole, _sent(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=asked), 0)
    found = [one.error_code for one in answer.results if one.user == "u"]
    assert len(found) == 1 and "twice" in next(one.error_message for one in answer.results if one.user == "u")
    await whole.broker.stop()


async def test_a_group_of_two_parts_is_deleted_once() -> None:
    whole = await WholeBroker.start()
    row = _sent(ApiKey.DELETE_GROUPS, 2, groups_names=["g", *FILLING, "g"])
    answer, _ = await _turns(whole, row, 0)
    assert [one.group_id for one in answer.results].count("g") == 1
    await whole.broker.stop()


async def test_of_two_offsets_to_delete_to_the_last_one_counts() -> None:
    whole = await WholeBroker.start()
    await whole.create_topic("t", partitions=1)
    for _ in range(4):
        await whole.produce("t", b"v")

    def topic(name: str, offset: int) -> dict[str, Any]:
        return {"name": name, "partitions": [{"partition_index": 0, "offset": offset}]}

    topics = [topic("t", 3), *(topic(one, 0) for one in FILLING), topic("t", 1)]
    answer, _ = await _turns(whole, _sent(ApiKey.DELETE_RECORDS, 2, topics=topics, timeout=1000), 0)
    assert [one.partitions[0].low_watermark for one in answer.topics if one.name == "t"] == [1]
    await whole.broker.stop()


@pytest.mark.parametrize("keeps_last", [False, True])
def test_repeated_elements_are_found_at_any_place(keeps_last: bool) -> None:
    chance = random.Random(5)
    for _ in range(50):
        topics = [
            (f"t{chance.randrange(3)}", [chance.randrange(4) for _ in range(chance.randrange(5))])
            for _ in range(chance.randrange(1, 6))
        ]
        request = messages.request(
            ApiKey.DELETE_RECORDS,
            2,
            timeout=1000,
            topics=[
                {"name": name, "partitions": [{"partition_index": one, "offset": 0} for one in partitions]}
                for name, partitions in topics
            ],
        )
        repeats = long_requests.REPEATS[ApiKey.DELETE_RECORDS]._replace(keeps_last=keeps_last)
        once, twice = long_requests.without_repeats(request, repeats)
        given = [(name, one) for name, partitions in topics for one in partitions]
        found = [(one.name, inner.partition_index) for one in once.topics for inner in one.partitions]  # type: ignore[attr-defined]
        expected = list(dict.fromkeys(reversed(given)))[::-1] if keeps_last else list(dict.fromkeys(given))
        assert found == expected
        assert twice == {one for one in given if given.count(one) > 1}


# --- work of the thread -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["list transactions", "list transactions of producers"])
async def test_filters_of_many_names_are_read_in_the_thread(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = await WholeBroker.start()
    await whole.ask(ApiKey.FIND_COORDINATOR, 3, key_type=1, key="t")
    await asyncio.sleep(10)
    calls = where_called(monkeypatch, list_transactions, "filter_by")
    answer, _ = await _turns(whole, ROWS[name], COUNT)
    assert answer.error_code == 0
    assert len(answer.unknown_state_filters) == (COUNT if name == "list transactions" else 0)
    fields = ROWS[name].fields(10)
    await whole.ask(ApiKey.LIST_TRANSACTIONS, 1, **fields)
    assert calls == [True, False]


# --- searches by time ---------------------------------------------------------------------------------------------


async def test_batches_are_opened_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = await WholeBroker.start()
    await whole.create_topic("t", partitions=3)
    for partition in range(3):
        await whole.produce("t", b"v", partition=partition, timestamp_ms=START_MS + partition)
    in_thread: list[Any] = []
    submit = BlockingWork.submit

    def noted(self: BlockingWork, work: Any) -> Any:
        in_thread.append(work)
        return submit(self, work)

    opened: list[OpenedBatch] = []
    find = OpenedBatch.find

    def found(self: OpenedBatch) -> Any:
        opened.append(self)
        return find(self)

    monkeypatch.setattr(BlockingWork, "submit", noted)
    monkeypatch.setattr(OpenedBatch, "find", found)
    answer = await whole.ask(
        ApiKey.LIST_OFFSETS,
        9,
        replica_id=-1,
        topics=[
            {
                "name": "t",
                "partitions": [
                    {"partition_index": one, "timestamp": time}
                    for one, time in enumerate((START_MS, -3, START_MS + 9))
                ],
            }
        ],
    )
    assert [one.offset for one in answer.topics[0].partitions] == [0, 0, -1]
    assert len(opened) == len(in_thread) == 2
    await whole.broker.stop()


async def test_a_search_begins_again_when_segments_go_away_meanwhile() -> None:
    whole = await WholeBroker.start()
    await whole.create_topic("t", segment_bytes=str(1024 * 1024), retention_ms="-1")
    await whole.produce("t", b"v", timestamp_ms=START_MS)
    log = whole.broker.partitions.get("t", 0).log
    search = log.search_timestamp(START_MS)
    opened = next(search)
    assert opened is not None
    segments = log.reader._segments
    segments.all = (*segments.all,)  # the same segments in another tuple: nothing went away
    with pytest.raises(StopIteration) as end:
        search.send(opened.find())
    assert end.value.value == (0, START_MS, 0)
    await whole.broker.stop()


# --- produce and fetch --------------------------------------------------------------------------------------------


async def _many(partitions: int) -> WholeBroker:
    whole = await WholeBroker.start({"max.incremental.fetch.session.cache.slots": "10"})
    await whole.create_topic("t", partitions=partitions)
    return whole


PARTITIONS = PARTITIONS_ANSWERED_AT_ONCE_MAX + 100


@pytest.mark.thorough
async def test_records_for_many_partitions_are_appended_and_fetched() -> None:
    whole = await _many(PARTITIONS)
    records = bytes(batch((b"value",)))
    produced = await whole.ask(
        ApiKey.PRODUCE,
        9,
        acks=-1,
        timeout=1000,
        topic_data=[
            {
                "name": "t",
                "partition_data": [{"index": one, "records": records} for one in range(PARTITIONS + 1)],
            }
        ],
    )
    results = produced.responses[0].partition_responses
    assert [one.index for one in results] == list(range(PARTITIONS + 1))
    unknown = code_of(errors.UnknownTopicOrPartition)
    assert [one.error_code for one in results] == [0] * PARTITIONS + [unknown]
    fetched = await _fetched(whole, 0, 0, range(PARTITIONS))
    assert len(fetched.responses[0].partitions) == PARTITIONS
    assert all(one.records for one in fetched.responses[0].partitions)
    assert fetched.session_id
    # The session remembers what was answered: nothing is new but the one that gets a record.
    await whole.produce("t", b"more", partition=7)
    again = await _fetched(whole, fetched.session_id, 1, (), offset=1)
    assert again.error_code == 0
    asked_again = [one.partition_index for topic in again.responses for one in topic.partitions]
    assert 7 in asked_again
    await whole.broker.stop()


async def _fetched(
    whole: WholeBroker, session_id: int, epoch: int, partitions: Any, *, offset: int = 0, wait: int = 0
) -> Any:
    asked = [{"partition": one, "fetch_offset": offset, "partition_max_bytes": 1000} for one in partitions]
    sent = whole.send(
        ApiKey.FETCH,
        12,
        max_wait=wait,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=session_id,
        session_epoch=epoch,
        topics=[{"topic": "t", "partitions": asked}] if asked else [],
    )
    assert inspect.isawaitable(sent)
    answer = await sent
    if isinstance(answer, list):
        answer = b"".join(
            bytes(part) if isinstance(part, bytes | bytearray | memoryview) else part.read()
            for part in answer
        )
    return decoded(ApiKey.FETCH, 12, answer)


async def test_a_fetch_of_many_partitions_waits_for_records() -> None:
    whole = await _many(PARTITIONS)
    waiting = asyncio.ensure_future(_fetched(whole, 0, 0, range(PARTITIONS), wait=60_000))
    await asyncio.sleep(5)
    assert not waiting.done()
    await whole.produce("t", b"first", partition=PARTITIONS - 1)
    answer = await waiting
    assert [one.partition_index for one in answer.responses[0].partitions if one.records] == [PARTITIONS - 1]
    await whole.broker.stop()


@pytest.mark.thorough
async def test_more_partitions_than_a_session_may_have_are_fetched_without_one() -> None:
    whole = await _many(1)
    answer = await _fetched(whole, 0, 0, range(FETCH_SESSION_PARTITIONS_MAX + 1))
    assert answer.session_id == 0
    assert len(answer.responses[0].partitions) == FETCH_SESSION_PARTITIONS_MAX + 1
    await whole.broker.stop()


async def test_a_few_partitions_are_answered_at_once() -> None:
    whole = await _many(20)
    frame = codec.encode_request(
        ApiKey.FETCH,
        12,
        7,
        "c",
        messages.request(
            ApiKey.FETCH,
            12,
            max_bytes=1000,
            topics=[{"topic": "t", "partitions": [{"partition": one} for one in range(20)]}],
        ),
    )
    assert not inspect.isawaitable(whole.dispatcher(whole.connection, memoryview(frame)[4:]))
    await whole.broker.stop()
