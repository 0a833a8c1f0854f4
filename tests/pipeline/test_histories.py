"""Random histories of loads, replays, streams and kills against a model: sets of offsets, without Spark or a broker.

Runs are planned, killed, delayed and published in any order, on the real log of manifests. A reader of the model reads
what the log has at that time. After each step the table holds exactly the offsets of its positions, with the newest
reading of each range.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from odradek_pipeline.errors import FencedError, RecreatedError, TruncatedError
from odradek_pipeline.outputs.parquet.log import ManifestLog
from odradek_pipeline.outputs.parquet.manifests import DataFile
from odradek_pipeline.outputs.parquet.store import StoredFile
from odradek_pipeline.runs.plans import LogFacts, Plan, plan_load, plan_replay
from odradek_pipeline.runs.positions import position
from odradek_pipeline.runs.queries import Queries, QueryState, next_batch, take_over
from odradek_pipeline.runs.ranges import Holdings, OffsetRange, PartitionKey, subtract_ranges, widen_ranges
from odradek_pipeline.runs.record import LOAD, QUERY, REPLAY, STREAM, RunRecord

PARTITIONS_MAX = 3
Row = tuple[PartitionKey, int]


class MemoryStore:
    """A store in memory; `create` is exclusive, as a real one's."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}

    def url(self, path: str) -> str:
        return path

    def read(self, path: str) -> bytes | None:
        return self.content.get(path)

    def create(self, path: str, content: bytes) -> bool:
        return self.content.setdefault(path, content) is content

    def write(self, path: str, content: bytes) -> None:
        self.content[path] = content

    def list_files(self, folder: str) -> list[StoredFile]:
        return [StoredFile(path, len(self.content[path])) for path in self.content if path.startswith(folder)]

    def remove(self, path: str) -> None:
        self.content.pop(path, None)

    def sync_files(self, paths: Any) -> None:
        """Memory is as durable as it gets."""


@dataclass(slots=True)
class Topic:
    """The model's log: the offsets with a record, by partition, with what compaction left out missing."""

    topic_id: str
    starts: list[int] = field(default_factory=lambda: [0])
    ends: list[int] = field(default_factory=lambda: [0])
    gone: set[tuple[int, int]] = field(default_factory=set)

    def facts(self) -> LogFacts:
        ends = dict(enumerate(self.ends))
        return LogFacts("t", self.topic_id, "c", dict(enumerate(self.starts)), ends, ends)

    def read_rows(self, one: OffsetRange) -> set[Row]:
        """What a reader of a range gets now."""
        number = one.key.partition
        assert self.topic_id == one.key.topic_id and self.starts[number] <= one.start
        return {(one.key, at) for at in range(one.start, one.end) if (number, at) not in self.gone}


@dataclass(slots=True)
class Run:
    """A run that is planned and has read, and is not yet published."""

    base: int
    record: RunRecord
    added: dict[str, set[Row]]
    files: list[DataFile]
    removed: list[str]


class Histories:
    """One topic and one table, with all choices from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.topic = Topic("id-0")
        self.log = ManifestLog(MemoryStore(), lambda: 0)
        self.numbers = itertools.count(1)
        self.contents: dict[str, set[Row]] = {}
        self.expected: set[Row] = set()
        self.waiting: list[Run] = []
        self.drivers: list[QueryState] = []
        self.newest_batch: QueryState | None = None
        self.seen: Counter[str] = Counter()

    def play(self, steps: int) -> None:
        """Raises AssertionError when the table is not what it should be."""
        rules = {
            self.produce: 6,
            self.compact: 1,
            self.truncate: 1,
            self.recreate: 0.1,
            self.plan_a_load: 5,
            self.plan_a_batch: 4,
            self.plan_a_replay: 5,
            self.kill: 1,
            self.publish: 8,
        }
        for _ in range(steps):
            (chosen,) = self.random.choices(list(rules), list(rules.values()))
            chosen()
            self.check()

    def produce(self) -> None:
        """Also what makes a new partition."""
        number = self.random.randrange(PARTITIONS_MAX)
        if number >= len(self.topic.ends):
            number = len(self.topic.ends)
            self.topic.starts.append(0)
            self.topic.ends.append(0)
        self.topic.ends[number] += self.random.randint(1, 12)

    def compact(self) -> None:
        number = self.random.randrange(len(self.topic.ends))
        self.topic.gone.add((number, self.random.randint(0, self.topic.ends[number])))

    def truncate(self) -> None:
        number = self.random.randrange(len(self.topic.ends))
        start, end = self.topic.starts[number], self.topic.ends[number]
        self.topic.starts[number] = start + int((end - start) * self.random.uniform(0, 0.3))

    def recreate(self) -> None:
        self.topic = Topic(f"id-{next(self.numbers)}")
        self.waiting.clear()  # what they read is gone with the topic

    def plan_a_load(self) -> None:
        """A run plans and reads. When it publishes, or whether it is killed before, is another rule's choice."""
        held, base = self._held()
        facts = [self.topic.facts()]
        start, stop = position("earliest"), position("latest")
        try:
            plan = plan_load(held, facts, start=start, stop=stop)
        except (TruncatedError, RecreatedError) as failure:
            self.seen[type(failure).__name__] += 1
            plan = plan_load(
                held, facts, start=start, stop=stop, on_truncated="pass-over", on_recreated="start-again"
            )
        if plan.ranges:
            self._read(LOAD, base, plan)

    def plan_a_batch(self) -> None:
        """A batch of a stream, by a new driver or by one that may have been asleep since its last batch."""
        held, base = self._held()
        newest = self.log.read_newest()
        queries = {} if newest is None else newest.record.queries
        if not self.drivers or self.random.random() < 0.2:
            self.drivers.append(take_over(queries, "q", f"driver-{next(self.numbers)}"))
        driver = self.random.choice(self.drivers)
        try:
            state = next_batch(queries, "q", driver)
            plan = plan_load(
                held,
                [self.topic.facts()],
                start=position("earliest"),
                stop=position("latest"),
                on_truncated="pass-over",
                offsets_max=self.random.randint(1, 15),
            )
        except FencedError:
            self.drivers.remove(driver)
            self.seen["taken over"] += 1
            return
        except RecreatedError:
            return
        if plan.ranges:
            self._read(STREAM, base, plan, {**queries, "q": state})

    def plan_a_replay(self) -> None:
        held, base = self._held()
        all_held = [one for one in held.ranges() if one.key.topic_id == self.topic.topic_id]
        if not all_held:
            return
        one = self.random.choice(all_held)
        start = one.start + int(self.random.random() * one.span)
        wanted = OffsetRange(one.key, start, start + self.random.randint(1, 6))
        plan = plan_replay(held, [self.topic.facts()], [wanted], on_truncated="pass-over")
        if plan.ranges:
            self._read(REPLAY, base, plan)

    def kill(self) -> None:
        """Its files are orphans then."""
        if self.waiting:
            self.waiting.remove(self.random.choice(self.waiting))

    def publish(self) -> None:
        """In any order: a run that waited while others published is a zombie."""
        if not self.waiting:
            return
        run = self.random.choice(self.waiting)
        self.waiting.remove(run)
        try:
            manifest = self.log.publish(run.base, run.record, run.files, run.removed)
        except FencedError:
            self.seen["fenced"] += 1
            return
        if self.random.random() < 0.8:  # else it is killed before its checkpoint
            self.log.make_checkpoint(manifest.version)
        self.seen[run.record.kind] += 1
        if base_of_query := self.newest_batch:
            now = manifest.record.queries["q"]
            is_batch = run.record.kind == STREAM
            assert now.batch == base_of_query.batch + is_batch and now.epoch >= base_of_query.epoch
        self.newest_batch = manifest.record.queries.get("q")
        for one in run.record.ranges:
            self.expected = {row for row in self.expected if not _is_in(row, one)}
        self.expected |= {row for rows in run.added.values() for row in rows}

    def check(self) -> None:
        newest = self.log.read_newest()
        if newest is None:
            return
        rows = [row for path in self.log.list_live(newest.version) for row in self.contents[path]]
        assert len(rows) == len(set(rows)), "a row is there twice"
        assert set(rows) == self.expected
        held = newest.record.holdings.topics["t"]
        for row in rows:
            if row[0].topic_id == held.topic_id:
                start, end = held.partitions[row[0].partition]
                assert start <= row[1] < end, "a row outside of the positions"

    def _held(self) -> tuple[Holdings, int]:
        newest = self.log.read_newest()
        return (Holdings.none(), 0) if newest is None else (newest.record.holdings, newest.version)

    def _read(self, kind: str, base: int, plan: Plan, queries: Queries | None = None) -> None:
        """What a reader and a writer make of a plan: small files, and survivors of replaced files."""
        size = self.random.randint(1, 9)
        name = f"run-{next(self.numbers)}"
        newest = self.log.read_newest()
        record = RunRecord(
            name,
            kind,
            base + 1,
            "c",
            plan.ranges,
            plan.holdings,
            started_ms=0,
            lost=plan.lost,
            details={QUERY: "q"} if kind == STREAM else {},
            queries=queries or ({} if newest is None else newest.record.queries),
        )
        run = Run(base, record, {}, [], [])
        for one in plan.ranges:
            for start in range(one.start, one.end, size):
                self._write(
                    run, self.topic.read_rows(OffsetRange(one.key, start, min(start + size, one.end)))
                )
        added = dict(run.added)
        if kind == REPLAY:
            for path, file in self.log.list_live(base).items():
                if any(file.held.overlaps(one) for one in plan.ranges):
                    run.removed.append(path)
                    left = subtract_ranges(file.held, plan.ranges)
                    self._write(
                        run, {row for row in self.contents[path] if any(_is_in(row, at) for at in left)}
                    )
        run.added = added
        self.waiting.append(run)

    def _write(self, run: Run, rows: set[Row]) -> None:
        if not rows:
            return
        path = f"data/{run.record.run}/{len(run.files)}"
        offsets = [offset for _, offset in rows]
        (key,) = {key for key, _ in rows}
        run.files.append(DataFile(path, OffsetRange(key, min(offsets), max(offsets) + 1), len(rows), 1))
        self.contents[path] = run.added[path] = rows


def _is_in(row: Row, one: OffsetRange) -> bool:
    return row[0] == one.key and one.start <= row[1] < one.end


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(20))
def test_a_table_has_the_rows_of_its_runs(seed: int) -> None:
    histories = Histories(seed)
    histories.play(250)
    print(f"seed {seed}: {dict(histories.seen)}")
    assert histories.seen[LOAD] and histories.seen[REPLAY] and histories.seen[STREAM]


def test_widened_ranges_split_no_file() -> None:
    key = PartitionKey("t", "id", 0)

    def of(start: int, end: int) -> OffsetRange:
        return OffsetRange(key, start, end)

    files = [of(0, 10), of(8, 20), of(20, 30), of(40, 50)]
    assert widen_ranges([of(5, 6)], files) == [of(0, 20)]
    assert widen_ranges([of(20, 25), of(45, 60)], files) == [of(20, 30), of(40, 60)]
    assert widen_ranges([of(30, 40)], files) == [of(30, 40)]
