"""A mirror as users run it: one process between two clusters, watched over HTTP, whose groups move."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from odradek.client.admin.groups import GroupAdmin
from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.foundation.ids import TopicPartition
from odradek.mirror.formats import parse_heartbeat, parse_offset_sync
from odradek.mirror.topic_tail import tail
from tests.mirror.test_moved_groups import commit, fill, value_at
from tests.support.broker_process import free_port
from tests.support.peers import TwoClusters
from tests.support.polling import SECONDS_MAX, eventually
from tests.support.stories import in_real_time

pytestmark = pytest.mark.integration

SETTINGS = """\
clusters = {a}, {b}
{a}.bootstrap.servers = {source}
{b}.bootstrap.servers = {target}
{a}->{b}.enabled = true
{a}->{b}.topics = {topics}
{a}->{b}.groups = {topics}
name = {name}
replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
refresh.groups.interval.seconds = 1
emit.checkpoints.interval.seconds = 1
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 1
"""
LABELS = ("source", "topic", "partition", "outcome", "reason", "kind")


class MirrorProcess:
    """`odradek mirror` from `a` to `b`, of the topics and groups of one test."""

    def __init__(self, folder: Path, clusters: TwoClusters, unique: str) -> None:
        self.a, self.b = f"{unique}-a", f"{unique}-b"
        self.port = free_port()
        self._config = folder / "mm2.properties"
        self._config.write_text(
            SETTINGS.format(
                a=self.a,
                b=self.b,
                source=clusters.source.bootstrap,
                target=clusters.target.bootstrap,
                topics=f"{unique}.*",
                name=unique,
            )
        )
        self._log = folder / "mirror.log"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "odradek", "mirror", "--config", str(self._config)]
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [*command, "--admin", f"127.0.0.1:{self.port}"], stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("ready mirror"), f"{line}\n{self._log.read_text()}"

    def stop(self) -> int:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(SECONDS_MAX)
        finally:
            assert self._process.stdout is not None
            self._process.stdout.close()

    def kill(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        self._process.kill()
        self._process.wait(SECONDS_MAX)
        self._process.stdout.close()

    def get(self, path: str) -> str:
        """The body of an answer of the admin port, whatever its status is."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=20) as answer:
                body: bytes = answer.read()
        except urllib.error.HTTPError as refused:
            body = refused.read()
        return body.decode()

    def flow(self) -> dict[str, Any]:
        """The only flow of /mirror."""
        (found,) = json.loads(self.get("/mirror"))["flows"]
        assert isinstance(found, dict)
        return found

    def metrics(self) -> dict[str, dict[tuple[str, ...], float]]:
        """The values of mirrors' metrics by the values of their labels."""
        found: dict[str, dict[tuple[str, ...], float]] = {}
        for family in text_string_to_metric_families(self.get("/metrics")):
            for sample in family.samples:
                if sample.name.startswith("odradek_mirror_"):
                    name = sample.name.removeprefix("odradek_mirror_")
                    labels = tuple(sample.labels[one] for one in LABELS if one in sample.labels)
                    found.setdefault(name, {})[labels] = sample.value
        return found


@contextmanager
def mirror_process(folder: Path, clusters: TwoClusters, unique: str) -> Iterator[MirrorProcess]:
    mirror = MirrorProcess(folder, clusters, unique)
    mirror.start()
    try:
        yield mirror
    except BaseException:
        mirror.stop()
        raise
    assert mirror.stop() == 0


@in_real_time
async def test_a_mirror_is_watched_and_its_groups_move(
    clusters: TwoClusters, unique: str, tmp_path: Path
) -> None:
    await fill(clusters, unique, 1_000)
    with mirror_process(tmp_path, clusters, unique) as mirror:
        target = TopicPartition(f"{mirror.a}.{unique}", 0)

        async def position() -> int:
            partitions = (await asyncio.to_thread(mirror.flow))["partitions"]
            return max((one["position"] for one in partitions if one["topic"] == unique), default=0)

        async def has_all() -> bool:
            return await position() == 1_000

        await eventually("all records at the target", has_all, seconds_max=150)
        await commit(clusters, unique, unique, 456)
        async with Client(clusters.target.bootstrap) as client:
            groups = GroupAdmin(client)

            async def is_moved() -> bool:
                return target in await groups.offsets(unique)

            await eventually("the group's offset at the target", is_moved, seconds_max=150)
            moved = (await groups.offsets(unique))[target]
            assert await value_at(client, target, moved.offset) == 456
            names = {topic.name for topic in await TopicAdmin(client).list()}
            assert {f"{mirror.a}.heartbeats", f"{mirror.a}.checkpoints.internal", "heartbeats"} <= names
            beats = [
                parse_heartbeat(record.key or b"", record.value or b"")
                async for records in tail(client, f"{mirror.a}.heartbeats", offsets_max=1_000)
                for record in records
            ]
            assert (mirror.b, mirror.a) in {heartbeat[:2] for heartbeat in beats}
        assert await asyncio.to_thread(mirror.get, "/readyz") == "ready\n"

        async def has_counted() -> bool:
            names = ("checkpoints_total", "group_offsets_total", "heartbeats_total")
            now = await asyncio.to_thread(mirror.metrics)
            return all(now[name][(mirror.a,)] >= 1 for name in names)

        await eventually("checkpoints, offsets and heartbeats in the metrics", has_counted)
        found = await asyncio.to_thread(mirror.metrics)
        labels = (mirror.a, unique, "0")
        assert found["records_total"][labels] == 1_000
        assert found["lag_records"][labels] == 0 and found["lag_seconds"][labels] == 0
        assert found["flow_running"] == {(mirror.a,): 1}
        assert found["transactions_total"][(mirror.a, "committed")] >= 1
        assert found["groups"][(mirror.a,)] == 1
        flow = await asyncio.to_thread(mirror.flow)
        assert flow["state"] == "running" and flow["not_ready"] is None


@in_real_time
async def test_a_killed_mirror_translates_what_was_behind_it(
    clusters: TwoClusters, unique: str, tmp_path: Path
) -> None:
    await fill(clusters, unique, 1_000)
    with mirror_process(tmp_path, clusters, unique) as mirror:
        target = TopicPartition(f"{mirror.a}.{unique}", 0)

        async def has_syncs() -> bool:
            found = await asyncio.to_thread(mirror.metrics)
            labels = (mirror.a, unique, "0")
            is_whole = found.get("records_total", {}).get(labels) == 1_000
            return is_whole and found["lag_records"][labels] == 0 and await syncs_of(mirror) == 1_000

        async def syncs_of(mirror: MirrorProcess) -> int:
            """The end of what the newest offset sync is of."""
            end = 0
            async with Client(clusters.source.bootstrap) as source:
                async for records in tail(source, f"mm2-offset-syncs.{mirror.b}.internal", offsets_max=1_000):
                    for record in records:
                        sync = parse_offset_sync(record.key or b"", record.value or b"")
                        if sync.partition.topic == unique:
                            end = sync.source_offset + 1
            return end

        await eventually("all records at the target, and stored offset syncs", has_syncs, seconds_max=150)
        mirror.kill()
        await commit(clusters, unique, unique, 321)
        mirror.start()
        async with Client(clusters.target.bootstrap) as client:
            groups = GroupAdmin(client)

            async def is_moved() -> bool:
                return target in await groups.offsets(unique)

            await eventually("the group's offset at the target", is_moved, seconds_max=150)
            moved = (await groups.offsets(unique))[target]
            # One sync is of all that was passed in some seconds, with a marker for each transaction.
            assert 321 - 50 <= await value_at(client, target, moved.offset) <= 321
