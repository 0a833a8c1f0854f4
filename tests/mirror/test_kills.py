"""Workers that die or stand still at each step of a transaction: nothing is lost, doubled, or out of order."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from odradek.client.admin.admin import Admin
from odradek.client.admin.logs import LATEST, LogAdmin
from odradek.client.admin.transactions import TransactionAdmin
from odradek.client.client import Client
from odradek.foundation.ids import TopicPartition
from tests.support.broker_process import CHECKOUT
from tests.support.mirroring import (
    WAIT_SECONDS_MAX,
    committed,
    entries,
    mirrored,
    quicken,
    running,
    until,
    write,
)
from tests.support.peers import TwoClusters
from tests.support.stories import in_real_time

pytestmark = pytest.mark.integration

KILLS: Final = (
    "fetch:answered",
    "produce:sent",
    "produce:answered",
    "txn-offset-commit:answered",
    "end-txn:sent",
    "end-txn:answered",
)
# Not the first one: there is a position to fall back to.
COUNT: Final = 2


class DyingMirrors:
    """Processes of `dying_mirror`, all with one file of properties."""

    def __init__(self, folder: Path, properties: dict[str, str]) -> None:
        self._folder = folder
        self._file = folder / "mm2.properties"
        self._file.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, step: str, count: int) -> subprocess.Popen[bytes]:
        with (self._folder / "mirrors.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.mirror.dying_mirror", str(self._file), step, str(count)],
                cwd=CHECKOUT,
                env={**os.environ, "PYTHONPATH": f"{CHECKOUT / 'broker'}:{CHECKOUT}"},
                stdout=log,
                stderr=log,
            )
        self._processes.append(process)
        return process

    def log(self) -> str:
        return (self._folder / "mirrors.log").read_text(errors="replace")[-3_000:]

    def close(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()


@pytest.fixture
def mirrors(tmp_path: Path, clusters: TwoClusters, unique: str) -> Iterator[DyingMirrors]:
    made = DyingMirrors(
        tmp_path,
        {
            **entries(
                clusters.source.bootstrap, clusters.target.bootstrap, name=unique, topics=f"{unique}.*"
            ),
            "transaction.bytes.max": "20000",
        },
    )
    yield made
    made.close()


@pytest.mark.thorough
@pytest.mark.slow
@in_real_time
async def test_a_worker_that_is_killed_at_any_step_leaves_nothing_half(
    mirrors: DyingMirrors, clusters: TwoClusters, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    quicken(monkeypatch)
    topic = f"{unique}.t"
    async with Client(clusters.source.bootstrap) as source, Client(clusters.target.bootstrap) as target:
        await Admin(source).topics.create(topic, partitions=2)
        written = 0
        for step in KILLS:
            process = mirrors.start(step, COUNT)
            deadline = asyncio.get_running_loop().time() + WAIT_SECONDS_MAX
            while process.poll() is None and asyncio.get_running_loop().time() < deadline:
                await write(source, topic, 100, first=written, partitions=2)
                written += 100
                await asyncio.sleep(0.1)
            assert process.poll() == -signal.SIGKILL, f"{step}: {mirrors.log()}"
        given = entries(
            clusters.source.bootstrap, clusters.target.bootstrap, name=unique, topics=f"{unique}.*"
        )
        async with running(given):
            await until(lambda: mirrored(source, target, topic, f"a.{topic}"))
        assert sum(map(len, (await committed(target, f"a.{topic}")).values())) == written


@pytest.mark.parametrize(
    "step", ["stop:txn-offset-commit:answered", "stop:produce:answered", "stop:end-txn:sent"]
)
@in_real_time
async def test_a_worker_that_stood_still_is_fenced(
    step: str, mirrors: DyingMirrors, clusters: TwoClusters, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    quicken(monkeypatch)
    topic = f"{unique}.t"

    async with Client(clusters.source.bootstrap) as source, Client(clusters.target.bootstrap) as target:
        await Admin(source).topics.create(topic, partitions=2)
        stalled = mirrors.start(step, COUNT)
        pid, written = stalled.pid, 0

        async def stands_still() -> bool:
            nonlocal written
            await write(source, topic, 100, first=written, partitions=2)
            written += 100
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            return state == "T"

        await until(stands_still, what=mirrors.log())
        given = entries(
            clusters.source.bootstrap, clusters.target.bootstrap, name=unique, topics=f"{unique}.*"
        )
        async with running(given):
            await write(source, topic, 500, first=written, partitions=2)
            # The other worker takes over once the session of the one that stands still has ended.
            await until(lambda: mirrored(source, target, topic, f"a.{topic}"))
            os.kill(pid, signal.SIGCONT)
            await write(source, topic, 500, first=written + 500, partitions=2)
            await until(lambda: mirrored(source, target, topic, f"a.{topic}"))
        # The one that stood still is a member again, and copies alone now.
        await write(source, topic, 500, first=written + 1_000, partitions=2)
        await until(lambda: mirrored(source, target, topic, f"a.{topic}"))
        stalled.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(stalled.wait, WAIT_SECONDS_MAX) == 0, mirrors.log()


def test_a_worker_that_outlives_its_transaction_writes_nothing(
    tmp_path: Path, clusters: TwoClusters, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    quicken(monkeypatch)
    topic, keys = f"{unique}.t", [TopicPartition(f"a.{unique}.t", number) for number in range(2)]
    given = {
        **entries(clusters.source.bootstrap, clusters.target.bootstrap, name=unique, topics=f"{unique}.*"),
        "transaction.timeout.ms": "1000",
    }
    mirrors = DyingMirrors(tmp_path, {**given, "transaction.bytes.max": "20000"})

    async def test() -> None:
        async with Client(clusters.source.bootstrap) as source, Client(clusters.target.bootstrap) as target:
            await Admin(source).topics.create(topic, partitions=2)
            stalled = mirrors.start("stop:txn-offset-commit:answered", COUNT)
            written = 0

            async def stands_still() -> bool:
                nonlocal written
                await write(source, topic, 100, first=written, partitions=2)
                written += 100
                return Path(f"/proc/{stalled.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

            async def is_timed_out() -> bool:
                found = await TransactionAdmin(target).describe(f"odradek-mirror.{unique}.a.0")
                return found.state == "CompleteAbort"

            async def has_joined() -> bool:
                return len((await Admin(target).groups.describe(f"odradek-mirror.{unique}.a")).members) == 2

            await until(stands_still, what=mirrors.log())
            # Only the target's timeout ends the transaction: no other worker runs yet.
            await until(is_timed_out)
            async with running(given):
                await write(source, topic, 500, first=written, partitions=2)
                await until(lambda: mirrored(source, target, topic, f"a.{topic}"))
                ends = await LogAdmin(target).offsets_at(keys, LATEST)
                positions = await Admin(target).groups.offsets(f"odradek-mirror.{unique}.a")
                os.kill(stalled.pid, signal.SIGCONT)
                await until(has_joined, what=mirrors.log())
                # It was fenced before it joined again; it left neither a record nor a marker, and moved no position.
                assert "begins again" in mirrors.log()
                assert await LogAdmin(target).offsets_at(keys, LATEST) == ends
                assert await Admin(target).groups.offsets(f"odradek-mirror.{unique}.a") == positions
                await write(source, topic, 500, first=written + 500, partitions=2)
                await until(lambda: mirrored(source, target, topic, f"a.{topic}"))
            stalled.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(stalled.wait, WAIT_SECONDS_MAX) == 0, mirrors.log()

    try:
        asyncio.run(test())
    finally:
        mirrors.close()
