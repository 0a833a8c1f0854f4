"""What the console takes with many partitions and groups: how long a page takes, and what it costs while it is open.

One broker has topics of 100 partitions, and groups with a committed offset. A Chromium opens the pages of a real
`odradek console`. A page counts as usable once the words are there that a person looks for. Each is opened twice: first
while the console knows nothing of its facts. Then one page stays open. Looked at are the processor's time of the broker
and of the console, and the memory of the page's scripts.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import psutil

from bench.peers import compiled, ours, storage
from bench.rounds import say
from odradek.client.admin.groups import GroupAdmin
from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.client.results import CommittedOffset, TopicSpec
from odradek.foundation.ids import TopicPartition
from tests.support.broker_process import CHECKOUT, Broker, free_port
from tests.support.chromium import Tab, chromium, find_chromium

PARTITIONS_PER_TOPIC: Final = 100
_TOPICS_AT_ONCE: Final = 10
_GROUPS_AT_ONCE: Final = 100
# How long a viewer looks at a page before the next one.
_LOOK_SECONDS: Final = 2.0
_READY: Final = b"ready console"
# (page, its address, words of it that are there once it is usable)
_PAGES: Final = (
    ("overview", "#/overview", "Who leads what"),
    ("topics", "#/topics", "topic-000"),
    ("one topic", "#/topic?topic=topic-000", "First offset"),
    ("groups", "#/groups", "group-0000"),
    ("one group", "#/group?group=group-0000", "It has no members now."),
    ("administration", "#/administration", "No replica moves."),
)


def measure_console(*, partitions: int, groups: int, minutes: float, is_json: bool) -> int:
    """Print seconds of each page, and what one that is open costs. Returns 2 without a Chromium."""
    if find_chromium() is None:
        print(
            "bench: there is no Chromium on this machine; `apt-get install chromium` brings it",
            file=sys.stderr,
        )
        return 2
    compiled()
    with storage(None) as folder:
        broker = ours(folder)
        broker.start()
        try:
            found = asyncio.run(
                _measure(broker, folder, partitions=partitions, groups=groups, minutes=minutes)
            )
        finally:
            broker.close()
    for row in found:
        print(json.dumps(row) if is_json else row, flush=True)
    return 0


async def _measure(
    broker: Broker, folder: Path, *, partitions: int, groups: int, minutes: float
) -> list[dict[str, object]]:
    say(f"{partitions} partitions and {groups} groups are made")
    await _fill(broker, partitions=partitions, groups=groups)
    rows: list[dict[str, object]] = []
    async with _console(broker) as (console, url), chromium(folder) as tab:
        for turn in ("first", "again"):
            for page, address, words in _PAGES:
                seconds = await _open(tab, f"{url}/{address}", words)
                await asyncio.sleep(_LOOK_SECONDS)
                say(f"{turn}: {page}: {seconds:.2f} s")
                rows.append({"page": page, "opened": turn, "seconds": round(seconds, 2)})
        for page, address, words in _PAGES[:2]:
            await _open(tab, f"{url}/{address}", words)
            before = [_cpu_seconds(pid) for pid in (broker.pid, console)]
            memory_before = await _memory(tab)
            await asyncio.sleep(60 * minutes)
            spent = [_cpu_seconds(pid) - one for pid, one in zip((broker.pid, console), before, strict=True)]
            rows.append(
                {
                    "page": page,
                    "minutes open": minutes,
                    "share of a core, broker": round(spent[0] / (60 * minutes), 4),
                    "share of a core, console": round(spent[1] / (60 * minutes), 4),
                    "MB of scripts, then and now": [round(memory_before, 1), round(await _memory(tab), 1)],
                }
            )
    return rows


async def _fill(broker: Broker, *, partitions: int, groups: int) -> None:
    names = [f"topic-{number:03}" for number in range(max(1, partitions // PARTITIONS_PER_TOPIC))]
    async with Client(broker.bootstrap) as client:
        for start in range(0, len(names), _TOPICS_AT_ONCE):
            specs = [
                TopicSpec(name, min(partitions, PARTITIONS_PER_TOPIC))
                for name in names[start:][:_TOPICS_AT_ONCE]
            ]
            for result in (await TopicAdmin(client).create_many(specs)).values():
                if isinstance(result, Exception):
                    raise result
        admin = GroupAdmin(client)
        for start in range(0, groups, _GROUPS_AT_ONCE):
            await asyncio.gather(
                *(
                    admin.alter_offsets(
                        f"group-{number:04}",
                        {TopicPartition(names[number % len(names)], 0): CommittedOffset(0)},
                    )
                    for number in range(start, min(groups, start + _GROUPS_AT_ONCE))
                )
            )


@asynccontextmanager
async def _console(broker: Broker) -> AsyncIterator[tuple[int, str]]:
    """A console in a process of its own: its process id and address."""
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "odradek",
        "console",
        "--bootstrap",
        broker.bootstrap,
        "--port",
        str(port),
    ]
    process = await asyncio.create_subprocess_exec(
        *command, env={**os.environ, "PYTHONPATH": str(CHECKOUT / "broker")}, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        line = await process.stdout.readline()
        assert line.startswith(_READY), line
        yield process.pid, f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


async def _open(tab: Tab, url: str, words: str) -> float:
    """Seconds from the beginning of the navigation until the page has these words."""
    await tab.open("about:blank")
    await tab.open(url)
    script = f"""(async () => {{
      while (!(document.body && document.body.textContent.includes({json.dumps(words)})))
        await new Promise((resolve) => setTimeout(resolve, 10));
      return performance.now();
    }})()"""
    return float(await tab.run(script)) / 1000


async def _memory(tab: Tab) -> float:
    """MB of the page's scripts, after what is garbage is gone."""
    await tab.call("HeapProfiler.collectGarbage")
    return float((await tab.call("Runtime.getHeapUsage"))["usedSize"]) / 1e6


def _cpu_seconds(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)
