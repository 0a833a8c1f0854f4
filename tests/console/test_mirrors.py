"""What mirrors have written to a cluster: their heartbeats, and positions of groups, each as it was last."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from odradek.client.admin.groups import GroupAdmin
from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.client.results import CommittedOffset
from odradek.console.mirrors import list_mirrors
from odradek.foundation.console_limits import CONSOLE_MIRROR_OFFSETS_MAX
from odradek.foundation.ids import TopicPartition
from odradek.mirror.formats import (
    Checkpoint,
    Heartbeat,
    checkpoint_key,
    checkpoint_value,
    heartbeat_key,
    heartbeat_value,
)
from tests.console.viewer import Viewer, run
from tests.support.broker_process import Broker
from tests.support.local_process import running
from tests.support.mirroring import entries, quicken, write
from tests.support.mirroring import running as mirror
from tests.support.polling import eventually

pytestmark = pytest.mark.integration


async def beat(viewer: Viewer, topic: str, *beats: Heartbeat) -> None:
    for one in beats:
        await viewer.produce(topic, heartbeat_value(one), key=heartbeat_key(one))


async def check_in(viewer: Viewer, topic: str, *checkpoints: Checkpoint) -> None:
    for one in checkpoints:
        await viewer.produce(topic, checkpoint_value(one), key=checkpoint_key(one))


def test_the_newest_of_each_flow_and_position_is_shown(tmp_path: Path) -> None:
    async def story(viewer: Viewer) -> None:
        empty = await viewer.get("mirrors")
        assert (empty["rows"], empty["unread"]) == ([], [])
        for topic in ("heartbeats", "east.heartbeats", "east.checkpoints.internal", "orders.heartbeats.x"):
            await viewer.make_topic(topic)
        await beat(viewer, "heartbeats", Heartbeat("east", "west", 1_000), Heartbeat("east", "west", 3_000))
        await beat(viewer, "east.heartbeats", Heartbeat("west", "east", 2_000))
        await viewer.produce("heartbeats", b"of another program", b"", key=b"\xff")
        orders, other = TopicPartition("east.orders", 0), TopicPartition("east.orders", 1)
        await check_in(
            viewer,
            "east.checkpoints.internal",
            Checkpoint("billing", orders, 5, 4, ""),
            Checkpoint("audit", other, 9, 9, ""),
            Checkpoint("billing", orders, 7, 6, "m"),
        )
        await viewer.produce("east.checkpoints.internal", b"of another program", key=b"x")
        viewer.cluster.administration.mirrors.forget()
        flows = (await viewer.get("mirrors"))["rows"]
        assert flows == [
            {"source": "east", "target": "west", "came_from": None, "beat_ms": 3_000},
            {"source": "west", "target": "east", "came_from": "east", "beat_ms": 2_000},
        ]
        rows = (await viewer.get("carried"))["rows"]
        assert [(one["group"], one["partition"], one["source_offset"], one["offset"]) for one in rows] == [
            ("audit", 1, 9, 9),
            ("billing", 0, 7, 6),
        ]
        assert rows[0]["source"] == "east" and rows[0]["topic"] == "east.orders"
        assert [one["group"] for one in (await viewer.get("carried", text="BILL"))["rows"]] == ["billing"]

    with running(Broker(tmp_path / "broker")) as broker:
        run(broker.bootstrap, story)


def test_of_a_long_topic_the_end_is_read(tmp_path: Path) -> None:
    async def story(viewer: Viewer) -> None:
        await viewer.make_topic("heartbeats")
        old, new = Heartbeat("old", "west", 1), Heartbeat("new", "west", 2)
        await beat(viewer, "heartbeats", old)
        values = [heartbeat_value(new)] * CONSOLE_MIRROR_OFFSETS_MAX
        await viewer.produce("heartbeats", *values, key=heartbeat_key(new))
        found = await list_mirrors(viewer.client)
        assert [one.beat for one in found.flows] == [new]

    with running(Broker(tmp_path / "broker")) as broker:
        run(broker.bootstrap, story)


@pytest.mark.thorough
def test_a_real_mirror_is_seen_where_it_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quicken(monkeypatch)

    async def story(viewer: Viewer, source: Broker, target: Broker) -> None:
        began_ms = time.time_ns() // 1_000_000
        more = {
            **dict.fromkeys(
                ("emit.heartbeats.enabled", "emit.checkpoints.enabled", "emit.offset-syncs.enabled"), "true"
            ),
            **dict.fromkeys(
                (
                    "emit.heartbeats.interval.seconds",
                    "emit.checkpoints.interval.seconds",
                    "refresh.groups.interval.seconds",
                ),
                "1",
            ),
        }
        async with Client(source.bootstrap) as client:
            await TopicAdmin(client).create("orders", partitions=1)
            await write(client, "orders", count=20)
            await GroupAdmin(client).alter_offsets(
                "billing", {TopicPartition("orders", 0): CommittedOffset(5)}
            )
        async with mirror(entries(source.bootstrap, target.bootstrap, **more)):

            async def ask() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
                viewer.cluster.administration.mirrors.forget()
                return (await viewer.get("mirrors"))["rows"], (await viewer.get("carried"))["rows"]

            flows, positions = await eventually("it is seen", ask, lambda found: all(found))
        assert {(one["source"], one["target"]) for one in flows} >= {("a", "b")}
        assert all(one["beat_ms"] >= began_ms for one in flows)
        assert {one["group"] for one in positions} == {"billing"}

    with running(Broker(tmp_path / "source")) as source, running(Broker(tmp_path / "target")) as target:
        run(target.bootstrap, lambda viewer: story(viewer, source, target))
