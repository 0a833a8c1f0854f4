"""The tour's second half: a day of events becomes a table. Its driver is killed, and an hour of it is read again.

Left out where PySpark or Java is not there. The pipeline reads with Odradek's own data source, so no jar is fetched.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any, Final

from demo.stage import Broker, DemoFailedError, act, command_line, explain, quote

TOPIC: Final = "visits"
PARTITIONS: Final = 3
EVENTS: Final = 120_000
_PAGES: Final = ("/", "/chairs", "/lamps", "/basket", "/checkout")
_HOUR_MS: Final = 3_600_000
_HOURS: Final = 24
_DAY_MS: Final = _HOURS * _HOUR_MS
_DRIVER_SECONDS_MAX: Final = 180


def is_here() -> bool:
    """Whether PySpark and a Java are there."""
    if find_spec("pyspark") is None:
        return False
    from tests.support.java import JavaUnavailableError, java_home

    try:
        java_home()
    except JavaUnavailableError:
        return False
    return True


def show(broker: Broker, page: Path) -> None:
    """Play it, and leave a page of the table's runs at `page`. Raises DemoFailedError."""
    from tests.support.spark import spark_session

    output = broker.folder / "visits.table"
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)
    with _quiet(broker.folder / "spark.log"), spark_session(broker.folder, memory="512m") as spark:
        _happens(broker, midnight, 0, EVENTS // 2)
        _loads(broker, output)
        _happens(broker, midnight, EVENTS // 2, EVENTS)
        _driver_dies(broker, spark, output)
        _reads_again(broker, spark, output, midnight)
        _audits(broker, output)
        _shows(broker, output, page)


def _happens(broker: Broker, midnight: datetime, start: int, stop: int) -> None:
    """Events `start` to `stop` of the day, with the times that they would have."""
    act("A day of events" if start == 0 else "The afternoon's events")
    began = time.perf_counter()
    asyncio.run(_write(broker.listen, int(midnight.timestamp() * 1000), start, stop))
    explain(
        f"{stop - start:,} visits of {midnight:%A, %d %B}, by Odradek's own client, each with the time it happened: "
        f"{time.perf_counter() - began:.1f} s."
    )


async def _write(bootstrap: str, midnight_ms: int, start: int, stop: int) -> None:
    from odradek import Admin, Audit, Client, Producer, errors

    random = Random(start)
    now_ms = midnight_ms + start * _DAY_MS // EVENTS
    # The producer also publishes how many records of each hour are acknowledged, and that no older ones will follow.
    audit = Audit([TOPIC], window_ms=_HOUR_MS, low_time=lambda: now_ms)
    async with Client(bootstrap) as client:
        try:
            await Admin(client).topics.create(TOPIC, partitions=PARTITIONS)
        except errors.TopicAlreadyExists:
            assert start > 0, "the first half makes the topic"
        async with Producer(client, compression="lz4", audit=audit) as producer:
            for number in range(start, stop):
                now_ms = midnight_ms + number * _DAY_MS // EVENTS
                visitor = random.randrange(5000)
                visit = {"visit": number, "page": random.choice(_PAGES), "visitor": visitor}
                await producer.send(
                    TOPIC,
                    json.dumps(visit).encode(),
                    key=f"{visitor}".encode(),
                    timestamp_ms=now_ms,
                )
            now_ms = midnight_ms + stop * _DAY_MS // EVENTS


def _loads(broker: Broker, output: Path) -> None:
    act("Into a table")
    summary = _pipeline("load", "--topic", TOPIC, *_place(broker, output))
    _expect(summary["rows"] == EVENTS // 2, f"{summary['rows']} rows were loaded")
    explain(
        f"{summary['rows']:,} rows of Parquet in {summary['seconds']:.1f} s. The commit that shows them also holds "
        f"their offsets, {summary['offsets']:,} of {PARTITIONS} partitions."
    )


def _driver_dies(broker: Broker, spark: Any, output: Path) -> None:
    act("kill -9 of Spark, in the middle of a load")
    arguments = ["load", "--topic", TOPIC, *_place(broker, output)]
    before = set(output.rglob("*.parquet"))
    command_line(f"odradek-pipeline {' '.join(_shown(arguments))} &")
    driver = _driver(broker.folder, arguments)
    try:
        deadline = time.monotonic() + _DRIVER_SECONDS_MAX
        # Spark writes a file under another name first, and renames it when its task is done.
        while not set(output.rglob("*.parquet")) - before:
            if driver.poll() is not None or time.monotonic() > deadline:
                raise DemoFailedError(f"the driver wrote nothing: see {broker.folder / 'driver.log'}")
            time.sleep(0.002)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    command_line(f"kill -9 {driver.pid}")
    left = len(set(output.rglob("*.parquet")) - before)
    rows = _rows(spark, output)
    _expect(rows == EVENTS // 2, f"the table has {rows} rows after the kill")
    explain(
        f"Files that it had begun are left in the folder ({left}), but no commit names them: the table still has its "
        f"{rows:,} rows. The next load begins where the table ends:"
    )
    summary = _pipeline(*arguments)
    rows = _rows(spark, output)
    _expect(rows == EVENTS, f"the table has {rows} rows after the next load")
    explain(f"{summary['rows']:,} rows came, and {rows:,} are there: none is missing, none is doubled.")


def _reads_again(broker: Broker, spark: Any, output: Path, midnight: datetime) -> None:
    act("An hour, read again")
    start, stop = (f"{midnight + timedelta(hours=hour):%Y-%m-%dT%H:%M:%SZ}" for hour in (9, 10))
    summary = _pipeline("replay", *_place(broker, output), "--start", start, "--stop", stop)
    rows = _rows(spark, output)
    _expect(rows == EVENTS, f"the table has {rows} rows after the replay")
    explain(
        f"Somebody has changed how events are read. {summary['rows']:,} rows from nine to ten were replaced, in one "
        f"commit, and the table has {rows:,} rows as before. The history of the table:"
    )
    history = _pipeline("runs", "--output", str(output), key="runs")
    quote("\n".join(f"{run['number']:>3}  {run['kind']:<8} {run['rows']:>9,} rows" for run in history))


def _audits(broker: Broker, output: Path) -> None:
    act("Is anything missing?")
    folder = str(broker.folder / "visits.audit")
    where = ["--bootstrap", broker.listen, "--topic", TOPIC, "--output", str(output), "--audit", folder]
    _pipeline("audit", "collect", *where)
    summary = _pipeline("audit", "verdicts", "--audit", folder)
    tiers = {
        tier: [one for one in summary["verdicts"] if one["tier"] == tier] for tier in ("stored", "loaded")
    }
    for tier, windows in tiers.items():
        verdicts = Counter(one["verdict"] for one in windows)
        found = sum(one["found"] for one in windows)
        quote(f"{tier:<7}  {dict(verdicts)}  {found:,} of {sum(one['expected'] for one in windows):,} events")
    quote(
        "\n".join(
            f"{one['tier']:<7}  complete until {one['complete_until']}" for one in summary["watermarks"]
        )
    )
    _expect(set(map(len, tiers.values())) == {_HOURS}, f"the audit has {summary['windows']} windows")
    _expect(summary.get("complete") == summary["windows"], f"the verdicts are not all complete: {summary}")
    explain(
        "The producer's own counts and hashes of every hour are those of the log and those of the table. A job can "
        "wait for that: odradek-pipeline audit wait --until …"
    )
    tiles = _pipeline("audit", "tiles", "--bootstrap", broker.listen, "--output", str(output))
    _expect(tiles["rows"] == EVENTS and tiles["unexplained"] == 0, f"the tiles do not fit: {tiles}")
    explain(
        f"A second audit asks no producer. The {tiles['rows']:,} rows lie at the log's offsets without hole or "
        f"overlap, and {tiles['unexplained']} offsets are left to explain."
    )


def _shows(broker: Broker, output: Path, page: Path) -> None:
    act("A page to look at")
    page.parent.mkdir(parents=True, exist_ok=True)
    audit = str(broker.folder / "visits.audit")
    where = ["--bootstrap", broker.listen, "--output", str(output), "--audit", audit]
    summary = _pipeline("page", *where, "--file", str(page))
    _expect(summary["verdict"] == "good", f"the page says: {summary['reasons']}")
    explain(
        f"{summary['reasons']}: that is its verdict. It has rows and times of the {summary['runs']} runs, lag by "
        "partition, a calendar of the audit's hours, and a command that replays each run. It is one file, and stays:"
    )
    quote(str(page))


def _place(broker: Broker, output: Path) -> list[str]:
    return ["--bootstrap", broker.listen, "--output", str(output), "--reader", "odradek"]


def _rows(spark: Any, output: Path) -> int:
    from odradek_pipeline.outputs.parquet.output import read_table

    return int(read_table(spark, str(output)).count())


def _pipeline(*arguments: str, key: str | None = None) -> Any:
    """Run one command on the session that is there. Returns its summary, or what its summary has as `key`."""
    from odradek_pipeline.cli.main import run

    command_line(f"odradek-pipeline {' '.join(_shown(arguments))}")
    printed = StringIO()
    with redirect_stdout(printed):
        code = run([*arguments, "--report", "json"])
    lines = printed.getvalue().splitlines()
    if code != 0 or not lines:
        raise DemoFailedError(f"odradek-pipeline {arguments[0]} ended with {code}:\n{printed.getvalue()}")
    summary = json.loads(lines[-1])
    return summary if key is None else summary[key]


def _shown(arguments: tuple[str, ...] | list[str]) -> list[str]:
    """Arguments as one could type them: paths by their names."""
    return [Path(one).name if one.startswith("/") else one for one in arguments]


def _driver(folder: Path, arguments: list[str]) -> subprocess.Popen[bytes]:
    """A driver of its own, at the head of a process group that its JVM belongs to."""
    from tests.support.spark_archive import driver_options

    short = [
        "--conf",
        f"spark.driver.extraJavaOptions={driver_options()}",
        "--conf",
        "spark.ui.enabled=false",
    ]
    with (folder / "driver.log").open("ab") as log:
        return subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "odradek_pipeline.entrypoint",
                *arguments,
                *short,
                "--report",
                "json",
            ],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            cwd=folder,
            start_new_session=True,
        )


@contextmanager
def _quiet(log: Path) -> Iterator[None]:
    """What the JVM writes to standard error goes to `log`: it inherits the descriptor."""
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("a") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _expect(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise DemoFailedError(otherwise)
