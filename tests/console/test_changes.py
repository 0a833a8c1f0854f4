"""Changes by viewers: refused without --allow-changes, shown first, logged, and the same as the command line shown."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import subprocess
import sys
from io import BytesIO
from typing import Any

import pytest

from odradek.client.admin.groups import GroupAdmin
from odradek.client.admin.topics import TopicAdmin
from odradek.client.consumer.topics import Consumer
from odradek.foundation.ids import TopicPartition
from tests.console.viewer import Viewer, with_changes, with_console
from tests.support.broker_process import CHECKOUT

pytestmark = pytest.mark.integration

BODIES: dict[str, dict[str, Any]] = {
    "produce": {"value": "x"},
    "create-topic": {},
    "delete-topic": {},
    "change-settings": {"set": {"retention.ms": "1"}},
    "reset-offsets": {"group": "g", "to": "latest"},
    "restore-offsets": {"group": "g", "offsets": {"0": "1"}},
    "forget-topic": {"group": "g"},
}


@with_console
async def test_a_console_that_only_shows_refuses_each_change(viewer: Viewer, unique: str) -> None:
    await viewer.make_topic(unique)
    for name, body in BODIES.items():
        for is_preview in (True, False):
            refused = await viewer.act(name, status=403, **body, topic=unique, preview=is_preview)
            assert "without --allow-changes" in refused["error"]
    assert (await TopicAdmin(viewer.client).describe(unique)).name == unique
    assert (await viewer.get("records", topic=unique))["end"] == 0


@with_changes
async def test_the_actions_are_those_that_are_refused_elsewhere(viewer: Viewer) -> None:
    assert viewer.cluster.actions.by_name.keys() == BODIES.keys()
    unknown = await viewer.act("format-disk", status=400)
    assert "there is no action 'format-disk'" in unknown["error"]


@with_changes
async def test_a_topic_is_made_changed_and_deleted(viewer: Viewer, unique: str) -> None:
    body: dict[str, Any] = {"topic": unique, "partitions": "3", "settings": {"retention.ms": "3600000"}}
    shown = await viewer.act("create-topic", **body, preview=True)
    assert not shown["done"] and shown["partitions"] == 3
    assert unique not in {topic.name for topic in await TopicAdmin(viewer.client).list()}
    assert shown["command"].startswith(
        f"odradek topics create {unique} --partitions 3 --config retention.ms=3600000 --bootstrap 127.0.0.1:"
    )
    assert (await viewer.act("create-topic", **body))["done"]
    (row,) = (await viewer.get("topics", text=unique))["rows"]
    assert row["partitions"] == 3
    assert "already exists" in (await viewer.act("create-topic", **body, status=400))["error"]

    change: dict[str, Any] = {"topic": unique, "set": {"segment.bytes": "1048576"}, "unset": ["retention.ms"]}
    await viewer.act("change-settings", **change, preview=True)
    own = [
        one["name"]
        for one in (await viewer.get("settings", topic=unique))["settings"]
        if one["source"] == "topic"
    ]
    assert own == ["retention.ms"]
    done = await viewer.act("change-settings", **change)
    assert "--config segment.bytes=1048576 --unset retention.ms" in done["command"]
    own = [
        one["name"]
        for one in (await viewer.get("settings", topic=unique))["settings"]
        if one["source"] == "topic"
    ]
    assert own == ["segment.bytes"]
    await viewer.act("change-settings", topic=unique, set={"segment.bytes": "few"}, preview=True, status=400)

    await viewer.act("delete-topic", topic=unique, preview=True)
    assert (await viewer.get("topics", text=unique))["total"] == 1
    await viewer.act("delete-topic", topic=unique)
    assert (await viewer.get("topics", text=unique))["total"] == 0
    await viewer.act("delete-topic", topic=unique, status=404)


@with_changes
async def test_a_record_is_produced(viewer: Viewer, unique: str) -> None:
    await viewer.make_topic(unique, partitions=2)
    body: dict[str, Any] = {
        "topic": unique,
        "key": "k",
        "value": "it's\nü",
        "headers": [["h", "1"]],
        "partition": 1,
    }
    assert not (await viewer.act("produce", **body, preview=True))["done"]
    done = await viewer.act("produce", **body)
    assert (done["partition"], done["offset"]) == (1, 0)
    (record,) = (await viewer.get("records", topic=unique, partition=1))["records"]
    assert (record["key"]["text"], record["value"]["text"]) == ("k", "it's\nü")
    assert record["headers"] == [
        {"name": "h", "value": {"form": "text", "text": "1", "size_bytes": 1, "is_shortened": False}}
    ]
    await viewer.act("produce", topic=unique, value="x", partition=7, status=404)
    await viewer.act("produce", topic=f"{unique}-missing", value="x", status=404)


@with_changes
async def test_offsets_are_reset_after_a_preview(viewer: Viewer, unique: str) -> None:
    await viewer.make_topic(unique, [b"a", b"b", b"c"])
    await viewer.commit(unique, unique, 2)
    body: dict[str, Any] = {"group": unique, "topic": unique, "to": "shift", "value": "-1"}
    shown = await viewer.act("reset-offsets", **body, preview=True)
    assert shown["rows"] == [{"topic": unique, "partition": 0, "before": 2, "after": 1}]
    key, admin = TopicPartition(unique, 0), GroupAdmin(viewer.client)
    assert (await admin.offsets(unique))[key].offset == 2
    await viewer.act("reset-offsets", **body)
    assert (await admin.offsets(unique))[key].offset == 1
    for to, value in (("offset", None), ("latest", 5), ("nowhere", None)):
        await viewer.act("reset-offsets", group=unique, topic=unique, to=to, value=value, status=400)
    mirrored = await viewer.act(
        "reset-offsets", group="odradek-mirror.a.b", topic=unique, to="latest", status=400
    )
    assert "positions of a mirror" in mirrored["error"]


@with_changes
async def test_a_reset_is_taken_back_and_a_topic_is_removed(viewer: Viewer, unique: str) -> None:
    await viewer.make_topic(unique, [b"a", b"b", b"c"], partitions=2)
    await viewer.commit(unique, unique, 2)
    reset = await viewer.act("reset-offsets", group=unique, topic=unique, to="latest")
    admin, key = GroupAdmin(viewer.client), TopicPartition(unique, 0)
    assert {one: found.offset for one, found in (await admin.offsets(unique)).items()} == {
        key: 3,
        TopicPartition(unique, 1): 0,
    }
    # As the page does: an offset that was not committed is an empty text.
    offsets = {
        str(row["partition"]): "" if row["before"] is None else str(row["before"]) for row in reset["rows"]
    }
    assert offsets == {"0": "2", "1": ""}
    body: dict[str, Any] = {"group": unique, "topic": unique, "offsets": offsets}
    shown = await viewer.act("restore-offsets", **body, preview=True)
    assert "--from-file before.json --execute" in shown["command"]
    assert [(row["before"], row["after"]) for row in shown["rows"]] == [(3, 2), (0, None)]
    await viewer.act("restore-offsets", **body)
    assert {one: found.offset for one, found in (await admin.offsets(unique)).items()} == {key: 2}
    for wrong in ({}, {"x": "1"}, {"0": "-1"}, {"9": "1"}):
        await viewer.act(
            "restore-offsets", group=unique, topic=unique, offsets=wrong, status=404 if "9" in wrong else 400
        )
    await viewer.act("forget-topic", group=unique, topic=unique)
    assert await admin.offsets(unique) == {}
    await viewer.act("forget-topic", group=unique, topic=unique, status=400)


@with_changes
async def test_a_group_with_members_is_not_reset(viewer: Viewer, unique: str) -> None:
    await viewer.make_topic(unique, [b"a"])
    async with Consumer(viewer.client, unique, group_id=unique, auto_offset_reset="earliest") as consumer:
        assert await consumer.poll(timeout_ms=60_000)
        await consumer.commit()
        refused = await viewer.act("reset-offsets", group=unique, topic=unique, to="latest", status=400)
        assert "1 member; stop its consumers first" in refused["error"]
        shown = await viewer.get("group", group=unique)
        (member,) = shown["members"]
        assert member["owns"] == [f"{unique}-0"]
        assert shown["page"]["rows"][0]["member"] == member["member"]


async def run_line(line: str) -> None:
    """Run a command line as a shell does, with this checkout's `odradek`."""
    script = f'odradek() {{ {shlex.quote(sys.executable)} -m odradek "$@"; }}; {line}'
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT / "broker")}
    done = await asyncio.to_thread(
        subprocess.run, ["sh", "-c", script], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.thorough
@with_changes
async def test_the_command_line_that_is_shown_does_the_same(viewer: Viewer, unique: str) -> None:
    # A name may begin as an option does.
    for topic in (unique, f"-{unique}"):
        await _run_each_line(viewer, topic)


async def _run_each_line(viewer: Viewer, topic: str) -> None:
    for name, body in (
        (
            "create-topic",
            {"topic": topic, "partitions": 2, "copies": 1, "settings": {"retention.ms": "1000000"}},
        ),
        ("change-settings", {"topic": topic, "set": {"segment.ms": "60000"}, "unset": ["retention.ms"]}),
        ("reset-offsets", {"group": topic, "topic": topic, "to": "offset", "value": 0}),
        ("reset-offsets", {"group": topic, "topic": topic, "to": "time", "value": 1_700_000_000_000}),
        ("delete-topic", {"topic": topic}),
    ):
        shown = await viewer.act(name, **body, preview=True)
        await run_line(shown["command"])
        if name == "reset-offsets":
            committed = await GroupAdmin(viewer.client).offsets(topic)
            assert {key.partition: one.offset for key, one in committed.items()} == {0: 0, 1: 0}
    assert topic not in {one.name for one in await TopicAdmin(viewer.client).list()}


@with_changes
async def test_the_line_that_produces_writes_the_same_record(viewer: Viewer, unique: str) -> None:
    await viewer.make_topic(unique)
    body: dict[str, Any] = {
        "topic": unique,
        "key": "$HOME",
        "value": 'two\nlines "and" it\'s %s',
        "headers": [["a", "b"]],
    }
    await viewer.act("produce", **body)
    line = (await viewer.act("produce", **body, preview=True))["command"]
    await run_line(line)
    first, second = (await viewer.get("records", topic=unique))["records"]
    assert {name: first[name] for name in ("key", "value", "headers")} == {
        name: second[name] for name in ("key", "value", "headers")
    }


@with_changes
async def test_bodies_that_are_no_request_are_refused(viewer: Viewer, unique: str) -> None:
    for body, words in (
        ({"topic": unique, "colour": "red"}, "there is no field 'colour'"),
        ({"topic": 5}, "topic has to be text"),
        ({"topic": unique, "partitions": "many"}, "partitions has to be a whole number"),
        ({"topic": unique, "settings": ["a"]}, "settings has to be an object of texts"),
        ({"topic": unique, "preview": "maybe"}, "preview has to be true or false"),
        ({"topic": "\ud800"}, "topic has a character that is none"),
    ):
        assert words in (await viewer.act("create-topic", status=400, **body))["error"]
    headers = {"X-Odradek-Console": "1", "Sec-Fetch-Site": "same-origin"}
    url = f"{viewer.server.url}/api/actions/create-topic"
    for data, status in (
        (b"[]", 400),
        (b"{", 400),
        (b"[" * 100_000, 400),
        (b"\xff", 400),
        (b"x" * (2 << 20), 413),
    ):
        async with viewer.session.post(url, data=BytesIO(data), headers=headers) as answer:
            assert answer.status == status
    zipped = {**headers, "Content-Encoding": "gzip"}
    async with viewer.session.post(url, data=b"x", headers=zipped) as answer:
        assert answer.status == 415


@with_changes
async def test_the_log_says_who_did_what_and_no_value(
    viewer: Viewer, unique: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="odradek.console"):
        await viewer.act("create-topic", topic=unique, preview=True)
        assert caplog.messages == []
        await viewer.act("create-topic", topic=unique)
        await viewer.act("produce", topic=unique, value="secret")
        await viewer.act("delete-topic", topic=unique)
    assert caplog.messages == [
        f"127.0.0.1 did create topic '{unique}'",
        f"127.0.0.1 did produce 6 bytes to '{unique}'",
        f"127.0.0.1 did delete topic '{unique}'",
    ]
