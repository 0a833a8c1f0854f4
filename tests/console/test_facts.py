"""What the pages show of a running broker: overview, findings, topics with their groups, groups with their lag."""

from __future__ import annotations

import pytest

from odradek.client.admin.configs import ConfigAdmin
from odradek.client.results import ConfigChange, ResourceType
from odradek.client.share.share_consumer import ShareConsumer
from tests.console.viewer import Viewer, run, with_console
from tests.support.broker_process import free_port

pytestmark = pytest.mark.integration


@with_console
async def test_the_overview_has_the_broker_and_its_partitions(viewer: Viewer, unique: str) -> None:
    await viewer.make_topic(unique, partitions=3)
    shown = await viewer.get("overview")
    assert shown["verdict"] == "healthy"
    (broker,) = shown["brokers"]
    assert broker["status"] == "live" and broker["leaders"] == shown["partitions"] >= 3
    assert shown["troubled"] == [] and shown["problems"] == {}


@with_console
async def test_the_findings_are_those_of_the_doctor(viewer: Viewer, unique: str) -> None:
    await viewer.make_topic(unique)
    await ConfigAdmin(viewer.client).alter(
        ResourceType.TOPIC, unique, [ConfigChange("min.insync.replicas", "2")]
    )
    shown = await viewer.get("findings")
    (found,) = [one for one in shown["findings"] if one["check"] == "copies"]
    assert found["severity"] == "warning" and unique in found["words"] and found["advice"]
    assert "health" in shown["passed"] and shown["unasked"] == []


@with_console
async def test_the_list_of_topics_has_the_groups_and_their_lag(viewer: Viewer, unique: str) -> None:
    await viewer.make_topic(unique, [b"a", b"b", b"c"])
    await viewer.commit(f"group-{unique}", unique, 1)
    shown = await viewer.get("topics", text=unique.upper())
    (row,) = shown["rows"]
    assert row["name"] == unique and row["partitions"] == 1 and row["size_bytes"] > 0
    assert row["groups"] == [{"group": f"group-{unique}", "state": "Empty", "type": "classic", "lag": 2}]
    assert row["without_leader"] == row["under_replicated"] == 0
    assert sum(row["leads"].values()) == 1 and row["follows"] == {}


@with_console
async def test_a_topic_has_its_partitions_in_pages(viewer: Viewer, unique: str) -> None:
    await viewer.make_topic(unique, [b"a", b"b"], partitions=7)
    shown = await viewer.get("topic", topic=unique, count=3, first=6)
    assert shown["page"]["total"] == 7
    assert [one["partition"] for one in shown["page"]["rows"]] == [6]
    (first, *_) = (await viewer.get("topic", topic=unique))["page"]["rows"]
    assert (first["start"], first["end"]) == (0, 2)
    assert first["replicas"] == first["in_sync"] == [first["leader"]] and first["problems"] == []


@with_console
async def test_settings_have_their_source(viewer: Viewer, unique: str) -> None:
    await viewer.make_topic(unique)
    await ConfigAdmin(viewer.client).alter(
        ResourceType.TOPIC, unique, [ConfigChange("retention.ms", "3600000")]
    )
    first, *others = (await viewer.get("settings", topic=unique))["settings"]
    assert (first["name"], first["value"], first["source"]) == ("retention.ms", "3600000", "topic")
    assert others and all(one["source"] != "topic" for one in others)


@with_console
async def test_groups_are_ordered_by_lag_and_described(viewer: Viewer, unique: str) -> None:
    await viewer.make_topic(unique, [b"a", b"b", b"c"])
    await viewer.commit(f"{unique}-little", unique, 2)
    await viewer.commit(f"{unique}-much", unique, 0)
    shown = await viewer.get("groups", text=unique, order="lag")
    assert [(one["group"], one["lag"]) for one in shown["rows"]] == [
        (f"{unique}-much", 3),
        (f"{unique}-little", 1),
    ]
    one = await viewer.get("group", group=f"{unique}-little")
    assert (one["state"], one["lag"], one["members"]) == ("Empty", 1, [])
    (row,) = one["page"]["rows"]
    assert (row["topic"], row["committed"], row["end"], row["lag"]) == (unique, 2, 3, 1)
    assert row["lag_ms"] >= 0 and row["member"] is None


@with_console
async def test_a_queue_has_the_lag_that_its_broker_counts(viewer: Viewer, unique: str) -> None:
    await viewer.make_topic(unique, [b"a", b"b", b"c"])
    earliest = ConfigChange("share.auto.offset.reset", "earliest")
    await ConfigAdmin(viewer.client).alter(ResourceType.GROUP, unique, [earliest])
    async with ShareConsumer(viewer.client, unique, [unique], is_explicit=True) as queue:
        first, second, third = await queue.poll(timeout_ms=30_000)
        queue.acknowledge(second, "accept")
        await queue.commit()
        queue.acknowledge(first, "release")
        queue.acknowledge(third, "release")
    (shown,) = (await viewer.get("groups", text=unique))["rows"]
    assert (shown["type"], shown["topics"], shown["lag"]) == ("share", [unique], 2)
    one = await viewer.get("group", group=unique)
    (row,) = one["page"]["rows"]
    # The record in the middle is done, and the first is not.
    assert (one["lag"], row["committed"], row["end"], row["lag"], row["member"]) == (2, 0, 3, 2, None)


@with_console
async def test_what_is_not_there_is_not_found(viewer: Viewer, unique: str) -> None:
    for path, fields in (
        ("topic", {"topic": unique}),
        ("settings", {"topic": unique}),
        ("group", {"group": unique}),
        ("records", {"topic": unique}),
        ("tail", {"topic": unique}),
        ("search", {"topic": unique, "text": "x"}),
        ("nothing", {}),
    ):
        assert (await viewer.get(path, status=404, **fields))["error"], path


@with_console
async def test_fields_that_cannot_be_are_refused_in_words(viewer: Viewer, unique: str) -> None:
    await viewer.make_topic(unique)
    for path, fields, words in (
        ("topics", {"first": "x"}, "first has to be a whole number"),
        ("topics", {"first": -1}, "first is -1; the least is 0"),
        ("topics", {"order": "colour"}, "order is 'colour'"),
        ("topic", {}, "topic is missing"),
        ("records", {"topic": unique, "form": "runes"}, "form is 'runes'"),
        ("records", {"topic": unique, "offset": "9" * 30}, "offset has to be a whole number"),
        ("search", {"topic": unique}, "text is missing"),
        ("search", {"topic": unique, "text": "x" * 2000}, "1000 characters at most"),
        ("tail", {"topic": unique, "partitions": "0,x"}, "partitions has to be numbers"),
    ):
        assert words in (await viewer.get(path, status=400, **fields))["error"]


def test_a_cluster_that_does_not_answer_is_said_in_words() -> None:
    async def story(viewer: Viewer) -> None:
        for path in ("overview", "findings", "topics", "groups"):
            assert "127.0.0.1" in (await viewer.get(path, status=503))["error"]
        assert (await viewer.get("about"))["may_change"] is False

    run(f"127.0.0.1:{free_port()}", story, wait_ms_max=100)
