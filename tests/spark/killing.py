"""Kills of loads, replays and streams, one after another on one table, each followed by a comparison with the log.

A table that survived a kill holds exactly the records of its positions: none lost, none twice.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from odradek_pipeline.errors import PipelineExitCode
from odradek_pipeline.runs.ranges import Holdings
from odradek_pipeline.work.worker import open_output
from tests.spark.killed_run import STOP
from tests.spark.records import send
from tests.spark.tables import Row, logged, pipeline, stored
from tests.support.broker_process import CHECKOUT
from tests.support.samples import numbered

DRIVER_SECONDS_MAX = 300
RECORDS_PER_LOAD = 60
PARTITIONS = 2
KILLED = -9
QUERY = ("--query", "kills")


@dataclass(slots=True)
class Table:
    """One table under kills. `lake` is the folder of the catalog `lake`."""

    spark: Any
    bootstrap: str
    topic: str
    output_format: str
    output: str
    folder: Path
    lake: Path
    sent: int = 0

    def load(self, point: str) -> int:
        """A load of new records that dies at `point`; its exit code. Another load may then have to do it all."""
        self.send()
        return self._driver(point, "load", "--topic", self.topic)

    def stream(self, point: str, reader: str = "kafka") -> int:
        """Batches of new records until the driver dies at `point`; its exit code."""
        self.send()
        return self._driver(point, *self._streaming(reader))

    def zombie(self, point: str) -> int:
        """A stream's driver that is stopped at `point`, and wakes up when another one has continued; its exit code.

        A driver that is through before its point is seen ends with 0.
        """
        self.send()
        driver = self._started(f"{STOP}{point}", *self._streaming("kafka"))
        wait_for_stop(driver)
        try:
            done = pipeline(*self._streaming("odradek"), *self._place())
        finally:
            if driver.poll() is None:
                os.killpg(driver.pid, signal.SIGCONT)
        assert done.code == 0, done
        return self._ended(driver, (PipelineExitCode.FENCED, 0))

    def interrupted(self, number: signal.Signals) -> int:
        """An endless stream whose process group gets a signal after its first batch; its exit code.

        A terminal sends Ctrl-C to the group like this, the JVM among it.
        """
        self.send()
        before = self._log.stat().st_size if self._log.exists() else 0
        driver = self._started("", "stream", "--topic", self.topic, "--trigger", "200ms", *QUERY)
        deadline = time.monotonic() + DRIVER_SECONDS_MAX
        while driver.poll() is None and '"event": "batch"' not in self._log.read_text()[before:]:
            if time.monotonic() > deadline:
                os.killpg(driver.pid, signal.SIGKILL)
                break
            time.sleep(0.05)
        self.send()  # a batch may be at work
        os.killpg(driver.pid, number)
        return self._ended(driver, (PipelineExitCode.INTERRUPTED, 0))

    def _streaming(self, reader: str) -> tuple[str, ...]:
        rate = ("--max-offsets-per-trigger", str(RECORDS_PER_LOAD // 2))
        return ("stream", "--topic", self.topic, "--available-now", *rate, "--reader", reader, *QUERY)

    def send(self) -> None:
        """New records for the next load."""
        send(self.bootstrap, self.topic, numbered(RECORDS_PER_LOAD), PARTITIONS, start=self.sent)
        self.sent += RECORDS_PER_LOAD

    def replay(self, point: str, start: int, stop: int) -> int:
        """A replay of the same offsets of both partitions that dies at `point`; its exit code."""
        between = ("--start", f"0:{start},1:{start + 1}", "--stop", f"0:{stop},1:{stop + 1}")
        return self._driver(point, "replay", *between)

    def check(self) -> None:
        """Rows are those of the log within the table's own positions."""
        output = open_output(self.spark, self.output_format, self.output)
        held, frame = output.read_newest().holdings, output.read_rows()
        rows: Counter[Row] = Counter() if frame is None else stored(frame)
        expected = within(logged(self.bootstrap, self.topic), held, self.topic)
        assert rows == expected, f"lost {expected - rows}, doubled {rows - expected}"

    def finish(self) -> None:
        """A last load that nothing kills: the whole log is there."""
        done = pipeline("load", "--topic", self.topic, *self._place())
        assert done.code == 0, done
        assert stored(open_output(self.spark, self.output_format, self.output).read_rows()) == logged(
            self.bootstrap, self.topic
        )

    def _place(self) -> tuple[str, ...]:
        return ("--bootstrap", self.bootstrap, "--output", self.output, "--format", self.output_format)

    def _driver(self, point: str, *arguments: str) -> int:
        return self._ended(self._started(point, *arguments), (KILLED, 0))

    def _started(self, point: str, *arguments: str) -> subprocess.Popen[bytes]:
        """One driver at the head of a process group that its JVM belongs to."""
        command = [sys.executable, "-m", "tests.spark.killed_run", str(self.folder), str(self.lake), point]
        with self._log.open("a") as opened:
            return subprocess.Popen(
                [*command, *arguments, *self._place()],
                cwd=CHECKOUT,
                env={**os.environ, "PYTHONPATH": "broker:pipeline:."},
                stdout=opened,
                stderr=opened,
                start_new_session=True,
            )

    @property
    def _log(self) -> Path:
        return self.folder / "driver.log"

    def _ended(self, driver: subprocess.Popen[bytes], codes: Sequence[int]) -> int:
        """The exit code of a driver, which is one of `codes`."""
        try:
            code = driver.wait(DRIVER_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
            raise AssertionError(
                f"no end within {DRIVER_SECONDS_MAX} s: {driver.args!r}\n{self._log.read_text()[-4000:]}"
            ) from None
        assert code in codes, self._log.read_text()[-4000:]
        return code


def wait_for_stop(driver: subprocess.Popen[bytes]) -> None:
    """Until a driver has stopped itself, or has ended."""
    stat = Path(f"/proc/{driver.pid}/stat")
    deadline = time.monotonic() + DRIVER_SECONDS_MAX
    while driver.poll() is None and stat.read_text().rpartition(")")[2].split()[0] != "T":
        if time.monotonic() > deadline:
            os.killpg(driver.pid, signal.SIGKILL)
            raise AssertionError(f"no stop within {DRIVER_SECONDS_MAX} s: {driver.args!r}")
        time.sleep(0.05)


def within(rows: Counter[Row], held: Holdings, topic: str) -> Counter[Row]:
    """The records in an output's positions."""
    bounds = held.topics[topic].partitions if topic in held.topics else {}
    return Counter(
        {
            row: count
            for row, count in rows.items()
            if row.partition in bounds and bounds[row.partition][0] <= row.offset < bounds[row.partition][1]
        }
    )
