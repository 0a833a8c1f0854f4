"""Records in a browser: pages, records of 10 MB, searches with bounds, tails; each ends when its page closes."""

from __future__ import annotations

import asyncio
import os
from contextlib import ExitStack

import pytest

from odradek.client.admin.configs import ConfigAdmin
from odradek.client.consumer.consumer import PartitionConsumer
from odradek.client.producer.producer import Producer
from odradek.client.results import ConfigChange, ResourceType
from odradek.foundation.console_limits import (
    CONSOLE_PARTITIONS_READ_MAX,
    CONSOLE_READS_MAX,
    CONSOLE_RECORDS_MAX,
    CONSOLE_SEARCHES_MAX,
    CONSOLE_TAILS_MAX,
    CONSOLE_VALUE_BYTES_MAX,
    CONSOLE_WHOLE_VALUE_BYTES_MAX,
)
from tests.console.viewer import Viewer, with_console
from tests.support.polling import eventually

pytestmark = pytest.mark.integration


def offsets(page: dict[str, list[dict[str, int]]]) -> list[int]:
    return [one["offset"] for one in page["records"]]


@with_console
async def test_a_partition_is_walked_through_from_both_ends(viewer: Viewer, unique: str) -> None:
    await viewer.make_topic(unique, [b"%d" % number for number in range(10)])
    newest = await viewer.get("records", topic=unique, count=4)
    assert offsets(newest) == [6, 7, 8, 9] and newest["is_complete"]
    older = await viewer.get("records", topic=unique, count=4, before=newest["first"])
    assert offsets(older) == [2, 3, 4, 5]
    assert offsets(await viewer.get("records", topic=unique, count=4, before=2)) == [0, 1]
    first = await viewer.get("records", topic=unique, count=4, start=1)
    assert offsets(first) == [0, 1, 2, 3] and first["next"] == 4
    assert offsets(await viewer.get("records", topic=unique, count=4, offset=4)) == [4, 5, 6, 7]
    assert offsets(await viewer.get("records", topic=unique, offset=1000)) == []
    assert offsets(await viewer.get("records", topic=unique, before=0)) == []
    assert len(offsets(await viewer.get("records", topic=unique, count=10**9))) == 10 < CONSOLE_RECORDS_MAX


@with_console
async def test_a_page_begins_at_a_time(viewer: Viewer, unique: str) -> None:
    await viewer.make_topic(unique)
    for number in range(3):
        await viewer.produce(unique, b"x", timestamp_ms=1_700_000_000_000 + number * 1000)
    at = await viewer.get("records", topic=unique, time=1_700_000_000_500)
    assert offsets(at) == [1, 2]
    assert at["records"][0]["timestamp_ms"] == 1_700_000_001_000
    assert offsets(await viewer.get("records", topic=unique, time=1_800_000_000_000)) == []


@with_console
async def test_a_transactions_marker_does_not_hold_a_page_up(viewer: Viewer, unique: str) -> None:
    await viewer.make_topic(unique)
    async with (
        Producer(viewer.client, transactional_id=unique) as producer,
        producer.transaction(),
    ):
        await producer.send(unique, b"a")
    page = await eventually(
        "the marker is written",
        lambda: viewer.get("records", topic=unique),
        lambda page: page["end"] == 2,
    )
    assert offsets(page) == [0] and (page["next"], page["is_complete"]) == (2, True)


@with_console
async def test_a_record_of_10_mb_is_shown_shortened(viewer: Viewer, unique: str) -> None:
    await viewer.make_topic(unique)
    await ConfigAdmin(viewer.client).alter(
        ResourceType.TOPIC, unique, [ConfigChange("max.message.bytes", str(11 << 20))]
    )
    size = 10 << 20
    await viewer.produce(unique, b"x" * size, os.urandom(size))
    page = await viewer.get("records", topic=unique)
    text, noise = [one["value"] for one in page["records"]]
    assert (text["form"], text["size_bytes"], text["is_shortened"]) == ("text", size, True)
    assert len(text["text"]) == CONSOLE_VALUE_BYTES_MAX
    assert (noise["form"], noise["is_shortened"]) == ("hex", True)
    assert len(noise["text"]) < 3 * CONSOLE_VALUE_BYTES_MAX
    alone = (await viewer.get("record", topic=unique, partition=0, offset=0))["value"]
    assert len(alone["text"]) == CONSOLE_WHOLE_VALUE_BYTES_MAX and alone["is_shortened"]
    await viewer.get("record", topic=unique, partition=0, offset=2, status=404)


@with_console
async def test_a_search_reads_all_partitions_and_says_how_far_it_is(viewer: Viewer, unique: str) -> None:
    await viewer.make_topic(unique, partitions=CONSOLE_PARTITIONS_READ_MAX + 2)
    async with Producer(viewer.client) as producer:
        for number in range(200):
            await producer.send(unique, b"value %d" % number, key=b"key-%d" % number)
        await producer.flush()
    events = await viewer.events("search", topic=unique, text="VALUE 17")
    found = {document["value"]["text"] for name, document in events if name == "match"}
    assert found == {"value 17", *(f"value 17{digit}" for digit in range(10))}
    name, done = events[-1]
    assert name == "done" and done["reason"] == "end"
    assert (done["matched"], done["passed"], done["total"], done["read"]) == (11, 200, 200, 200)
    assert events[0] == ("progress", {"matched": 0, "read": 0, "read_bytes": 0, "passed": 0, "total": 200})


@with_console
async def test_a_search_is_where_and_how_the_viewer_says(viewer: Viewer, unique: str) -> None:
    await viewer.make_topic(unique)
    await viewer.produce(unique, b"Needle", key=b"other", timestamp_ms=1_000)
    await viewer.produce(unique, b"other", key=b"needle", timestamp_ms=2_000)
    await viewer.produce(unique, b"other", headers=[("needle", None)], timestamp_ms=3_000)

    async def found(**fields: object) -> list[int]:
        events = await viewer.events("search", topic=unique, text="needle", **fields)
        return [document["offset"] for name, document in events if name == "match"]

    assert await found() == [0, 1]
    assert await found(exact=1) == [1]
    assert await found(**{"in": "value"}) == [0]
    assert await found(**{"in": "headers"}) == [2]
    assert await found(**{"in": "key,value,headers"}) == [0, 1, 2]
    assert await found(time=1_500) == [1]
    assert await found(partitions="0") == [0, 1]


@with_console
async def test_a_search_ends_at_its_bound_of_matches(viewer: Viewer, unique: str) -> None:
    await viewer.make_topic(unique, [b"same"] * 50)
    events = await viewer.events("search", topic=unique, text="same", matches=7)
    assert [name for name, _ in events].count("match") == 7
    assert events[-1][1]["reason"] == "matches"


@with_console
async def test_a_search_ends_when_its_page_closes(
    viewer: Viewer, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await viewer.make_topic(unique, [b"a"])
    closed = asyncio.Event()
    close = PartitionConsumer.close

    async def wait_for_ever(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    async def note_close(consumer: PartitionConsumer) -> None:
        await close(consumer)
        closed.set()

    monkeypatch.setattr(PartitionConsumer, "poll_blocks", wait_for_ever)
    monkeypatch.setattr(PartitionConsumer, "close", note_close)
    async with viewer.listen("search", topic=unique, text="x") as events:
        assert (await anext(events))[0] == "progress"
        assert viewer.cluster.slots.searches.taken == 1
    await closed.wait()
    await eventually("the search ends", lambda: viewer.cluster.slots.searches.taken, lambda taken: taken == 0)


@with_console
async def test_no_more_searches_and_tails_than_there_are_slots(viewer: Viewer, unique: str) -> None:
    await viewer.make_topic(unique)
    for slots, path, slots_max in (
        (viewer.cluster.slots.reads, "records", CONSOLE_READS_MAX),
        (viewer.cluster.slots.searches, "search", CONSOLE_SEARCHES_MAX),
        (viewer.cluster.slots.tails, "tail", CONSOLE_TAILS_MAX),
    ):
        with ExitStack() as taken:
            for _ in range(slots_max):
                taken.enter_context(slots.take())
            refused = await viewer.get(path, topic=unique, text="x", status=429)
            assert "try again in a moment" in refused["error"]
    assert offsets(await viewer.get("records", topic=unique)) == []


@with_console
async def test_a_tail_shows_new_records_until_its_page_closes(viewer: Viewer, unique: str) -> None:
    await viewer.make_topic(unique, [b"old"])
    async with viewer.listen("tail", topic=unique) as events:
        assert await anext(events) == ("beat", {"skipped": 0})
        assert viewer.cluster.slots.tails.taken == 1
        await viewer.produce(unique, b"new")
        found = None
        async for name, document in events:
            if name == "records":
                found = document["records"]
                break
        assert found is not None and [one["value"]["text"] for one in found] == ["new"]
    await eventually("the tail ends", lambda: viewer.cluster.slots.tails.taken, lambda taken: taken == 0)


@with_console
async def test_a_tail_of_many_partitions_asks_for_a_choice(viewer: Viewer, unique: str) -> None:
    await viewer.make_topic(unique, partitions=CONSOLE_PARTITIONS_READ_MAX + 1)
    refused = await viewer.get("tail", topic=unique, status=400)
    assert "choose some" in refused["error"]
    async with viewer.listen("tail", topic=unique, partitions="0,16") as events:
        assert (await anext(events))[0] == "beat"
