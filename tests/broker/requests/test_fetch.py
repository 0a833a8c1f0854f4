"""Fetch: what is answered, when, and within which limits."""

import asyncio
from typing import Any

import pytest

from odradek.metadata.image.image import PartitionImage
from odradek.wire.protocol.api import ApiKey
from odradek.wire.records.batch import split
from tests.support.whole_broker import WholeBroker, decoded


def offsets(records: bytes | None) -> list[int]:
    return [view.base_offset for view in split(memoryview(records or b""))]


async def started(*, partitions: int = 1, batches: int = 0, value: bytes = b"v") -> WholeBroker:
    broker = await WholeBroker.start()
    await broker.create_topic("t", partitions=partitions)
    for partition in range(partitions):
        for _ in range(batches):
            await broker.produce("t", value, partition=partition)
    return broker


@pytest.mark.parametrize("version", range(4, 19))
async def test_every_version_reads_what_was_written(version: int) -> None:
    broker = await started(partitions=2, batches=3)
    fields = broker.fetch_fields(("t", 0, 1), ("t", 1, 3))
    if version >= 13:
        fields["topics"][0]["topic_id"] = broker.broker.images.current.topics["t"].id
        del fields["topics"][0]["topic"]
    answer = await broker.ask(ApiKey.FETCH, version, **fields)
    (topic,) = answer.responses
    first, second = topic.partitions
    assert (first.partition_index, first.error_code, first.high_watermark) == (0, 0, 3)
    assert first.last_stable_offset == 3
    assert offsets(first.records) == [1, 2]
    assert (second.partition_index, second.error_code, second.records) == (1, 0, b"")
    if version >= 5:
        assert first.log_start_offset == 0
    if version >= 11:
        assert first.preferred_read_replica == -1


@pytest.mark.parametrize(("offset", "code"), [(-1, 1), (4, 1), (3, 0), (0, 0)])
async def test_offsets_outside_the_log_are_out_of_range(offset: int, code: int) -> None:
    broker = await started(batches=3)
    answer = (
        await broker.ask(ApiKey.FETCH, 11, **broker.fetch_fields(("t", 0, offset), max_wait_ms=60_000))
        if code
        else await broker.ask(ApiKey.FETCH, 11, **broker.fetch_fields(("t", 0, offset)))
    )
    assert answer.responses[0].partitions[0].error_code == code


async def test_unknown_topics_partitions_and_ids_have_errors_of_their_own() -> None:
    broker = await started()
    answer = await broker.ask(ApiKey.FETCH, 11, **broker.fetch_fields(("t", 5, 0), ("u", 0, 0)))
    assert [topic.partitions[0].error_code for topic in answer.responses] == [3, 3]
    import uuid

    for topic_id in (uuid.UUID(int=9), None):  # None is sent as zeros
        fields = broker.fetch_fields(("t", 0, 0))
        fields["topics"] = [{"topic_id": topic_id, "partitions": fields["topics"][0]["partitions"]}]
        answer = await broker.ask(ApiKey.FETCH, 13, **fields)
        assert answer.responses[0].topic_id == topic_id
        assert answer.responses[0].partitions[0].error_code == 100
    assert answer.responses[0].partitions[0].aborted_transactions == ()


@pytest.mark.parametrize(("epoch", "code"), [(-1, 0), (0, 0), (1, 75)])
async def test_the_readers_leader_epoch_is_checked(epoch: int, code: int) -> None:
    broker = await started(batches=1)
    fields = broker.fetch_fields(("t", 0, 0))
    fields["topics"][0]["partitions"][0]["current_leader_epoch"] = epoch
    answer = await broker.ask(ApiKey.FETCH, 11, **fields)
    assert answer.responses[0].partitions[0].error_code == code


async def test_the_first_batch_is_whole_at_any_size() -> None:
    broker = await started(partitions=2, batches=2, value=b"x" * 1000)
    fields = broker.fetch_fields(("t", 0, 0), ("t", 1, 0), max_bytes=10)
    answer = await broker.ask(ApiKey.FETCH, 11, **fields)
    first, second = answer.responses[0].partitions
    assert offsets(first.records) == [0]
    assert second.records == b""


async def test_a_partitions_own_limit_holds_for_all_but_the_first() -> None:
    broker = await started(partitions=2, batches=2, value=b"x" * 1000)
    fields = broker.fetch_fields(("t", 0, 0), ("t", 1, 0))
    for asked in fields["topics"][0]["partitions"]:
        asked["partition_max_bytes"] = 500
    first, second = (await broker.ask(ApiKey.FETCH, 11, **fields)).responses[0].partitions
    assert offsets(first.records) == [0]
    assert second.records == b""


async def test_a_fetch_from_inside_a_batch_gets_the_whole_batch() -> None:
    broker = await started()
    await broker.produce("t", b"a", b"b", b"c")
    answer = await broker.ask(ApiKey.FETCH, 11, **broker.fetch_fields(("t", 0, 2)))
    assert offsets(answer.responses[0].partitions[0].records) == [0]


async def test_an_empty_fetch_waits_for_its_time_and_no_longer() -> None:
    broker = await started()
    loop = asyncio.get_running_loop()
    began = loop.time()
    answer = await broker.ask(ApiKey.FETCH, 11, **broker.fetch_fields(("t", 0, 0), max_wait_ms=500))
    assert answer.responses[0].partitions[0].records == b""
    assert loop.time() - began == pytest.approx(0.5)
    assert len(broker.broker.purgatory) == 0


async def test_an_append_ends_the_wait_at_once_and_a_burst_makes_one_answer() -> None:
    broker = await started(partitions=2)
    loop = asyncio.get_running_loop()
    fields = broker.fetch_fields(("t", 0, 0), ("t", 1, 0), max_wait_ms=60_000)
    waiting = broker.send(ApiKey.FETCH, 11, **fields)
    assert not waiting.done()
    began = loop.time()
    await asyncio.sleep(1)
    await broker.produce("t", b"a", partition=1)
    await broker.produce("t", b"b", partition=0)
    answer = decoded(ApiKey.FETCH, 11, await waiting)
    assert loop.time() - began == pytest.approx(1.0)
    assert [len(offsets(partition.records)) for partition in answer.responses[0].partitions] == [1, 1]


async def test_min_bytes_are_waited_for_over_all_partitions() -> None:
    broker = await started(partitions=2)
    fields = broker.fetch_fields(("t", 0, 0), ("t", 1, 0), min_bytes=2000, max_wait_ms=60_000)
    waiting = broker.send(ApiKey.FETCH, 11, **fields)
    await broker.produce("t", b"x" * 1200)
    await asyncio.sleep(1)
    assert not waiting.done()
    await broker.produce("t", b"x" * 1200, partition=1)
    answer = decoded(ApiKey.FETCH, 11, await waiting)
    assert all(partition.records for partition in answer.responses[0].partitions)


async def test_a_wait_is_over_when_its_connection_is_gone() -> None:
    broker = await started()
    waiting = broker.send(ApiKey.FETCH, 11, **broker.fetch_fields(("t", 0, 0), max_wait_ms=60_000))
    assert len(broker.broker.purgatory) == 1
    waiting.cancel()
    await asyncio.sleep(0)
    assert len(broker.broker.purgatory) == 0
    assert not broker.broker.partitions.get("t", 0).replica.waiting


async def test_a_wait_is_over_when_the_topic_is_deleted() -> None:
    broker = await started()
    waiting = broker.send(ApiKey.FETCH, 11, **broker.fetch_fields(("t", 0, 0), max_wait_ms=60_000))
    await broker.broker.control.controller.delete_topics(["t"])
    answer = decoded(ApiKey.FETCH, 11, await waiting)
    assert answer.responses[0].partitions[0].error_code == 3


async def test_a_session_answers_only_changes_and_rotates_partitions() -> None:
    broker = await started(partitions=3, batches=1)
    every = [("t", 0, 0), ("t", 1, 0), ("t", 2, 0)]
    first = await broker.ask(ApiKey.FETCH, 11, **broker.fetch_fields(*every, session_epoch=0))
    assert first.session_id > 0
    assert len(first.responses[0].partitions) == 3

    async def next_fetch(epoch: int, *asked: tuple[str, int, int], **fields: int) -> Any:
        return await broker.ask(
            ApiKey.FETCH,
            11,
            **broker.fetch_fields(*asked, session_id=first.session_id, session_epoch=epoch, **fields),
        )

    moved = [("t", 0, 1), ("t", 1, 1), ("t", 2, 1)]
    assert (await next_fetch(1, *moved)).responses == ()
    for partition in (2, 1, 0):
        await broker.produce("t", b"x" * 500, partition=partition)
    turns: list[int] = []
    for epoch in (2, 3, 4):
        answer = await next_fetch(epoch, *[("t", index, 2) for index in turns[-1:]], max_bytes=100)
        with_records = [p.partition_index for p in answer.responses[0].partitions if p.records]
        assert len(with_records) == 1
        turns += with_records
    assert sorted(turns) == [0, 1, 2]
    wrong = await next_fetch(9)
    assert wrong.error_code == 71


async def test_a_session_may_forget_a_topic_without_a_name() -> None:
    broker = await started(batches=1)
    first = await broker.ask(ApiKey.FETCH, 7, **broker.fetch_fields(("t", 0, 0), session_epoch=0))
    fields = broker.fetch_fields(session_id=first.session_id, session_epoch=1)
    nameless = [{"topic": "", "partitions": [0]}]
    answer = await broker.ask(ApiKey.FETCH, 7, **fields, forgotten_topics_data=nameless)
    assert answer.error_code == 0
    assert answer.session_id == first.session_id


async def test_an_error_in_a_session_is_repeated_until_it_ends() -> None:
    broker = await started()
    answer = await broker.ask(ApiKey.FETCH, 11, **broker.fetch_fields(("t", 0, 5), session_epoch=0))
    session_id = answer.session_id
    for epoch in (1, 2):
        answer = await broker.ask(
            ApiKey.FETCH, 11, **broker.fetch_fields(session_id=session_id, session_epoch=epoch)
        )
        assert answer.responses[0].partitions[0].error_code == 1


async def test_a_reader_of_a_diverged_epoch_learns_where_to_truncate() -> None:
    broker = await started(batches=2)
    partition = broker.broker.partitions.get("t", 0)
    partition.take_role(PartitionImage(0, 1, 3, (1,), (1,), 9))
    await broker.produce("t", b"c")
    fields = broker.fetch_fields(("t", 0, 3))
    fields["topics"][0]["partitions"][0]["last_fetched_epoch"] = 0
    found = (await broker.ask(ApiKey.FETCH, 12, **fields)).responses[0].partitions[0]
    assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (0, 2)
    assert found.records == b""
