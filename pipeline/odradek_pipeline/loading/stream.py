"""`stream`: a topic's records into a table, batch by batch, until it is stopped. Each batch is one commit.

Look at the logs, plan a batch by the table's own record as a load does, commit it, show the positions. There is no
checkpoint that could be lost or disagree with the table: docs/design/0015-streams-into-tables.md has the reasons. A
batch that another run overtook is planned again. A batch of another driver of the same query ends the stream.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Final

from odradek_pipeline.connection.groups import show_positions
from odradek_pipeline.errors import (
    AnswerTimeoutError,
    FencedError,
    PipelineError,
    PipelineExitCode,
    PipelineSettingError,
    UnreachableError,
)
from odradek_pipeline.loading.load import commit_ranges
from odradek_pipeline.loading.settings import StreamSettings
from odradek_pipeline.outputs.output import Committed, OutputState
from odradek_pipeline.runs.plans import LogFacts, Plan, plan_load
from odradek_pipeline.runs.positions import position
from odradek_pipeline.runs.queries import next_batch, require_driver, take_over
from odradek_pipeline.runs.ranges import OffsetRange, PartitionKey
from odradek_pipeline.runs.rates import Rates, ends_of, measure_lag, pin_facts, pin_new_topics
from odradek_pipeline.runs.record import QUERY, REFRESH, STREAM, RunRecord, run_id
from odradek_pipeline.runs.steps import BATCH, CONNECTED, FINISHED, SHOWN, Steps
from odradek_pipeline.work.command import RANGES, Console, Summary
from odradek_pipeline.work.worker import RunWorker, new_record, now_ms, open_worker

# Loads and replays of others may overtake a batch; so many in a row are no chance any more.
TRIES_MAX: Final = 10
# How often a stream without news looks at its table, and repeats what a group or a log would forget.
_UPKEEP_SECONDS: Final = 600.0
# A trigger of 0 still leaves the brokers this pause when there is nothing new.
_PAUSE_SECONDS_MIN: Final = 0.1
_LATEST: Final = position("latest")
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
# How long a signal may wait to be seen between two batches.
_SLICE_SECONDS: Final = 0.1


class StopRequest:
    """A clean stop: the first SIGTERM or Ctrl-C lets a batch end, the second one ends it at once.

    The handler only sets a flag. An Event would wait for a lock that the interrupted code may hold.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None

    def __bool__(self) -> bool:
        return self.signal is not None

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Raises KeyboardInterrupt when a stop was asked for before."""
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = signal.Signals(number)

    def now_seconds(self) -> float:
        """The monotonic clock, as `wait_until` reads it."""
        return time.monotonic()

    def wait_until(self, moment_seconds: float) -> None:
        """Wait until that time of the clock, or until a stop is asked for."""
        while not self and (left := moment_seconds - self.now_seconds()) > 0:
            time.sleep(min(left, _SLICE_SECONDS))


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """A request that signals make. PySpark has a handler of its own for Ctrl-C, which is put back at the end.

    Outside of the main thread no signal arrives.
    """
    request = StopRequest()
    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, request.handle) for number in _SIGNALS}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run(settings: StreamSettings, console: Console) -> Summary:
    """Load batches until a stop. Raises PipelineError."""
    limit = settings.max_offsets_per_trigger
    if limit is not None and limit < settings.min_offsets_per_trigger:
        raise PipelineSettingError(
            f"--max-offsets-per-trigger {limit} is below --min-offsets-per-trigger {settings.min_offsets_per_trigger}"
        )
    with open_worker(settings, console, decoded=settings.decoding.formats) as work, stop_requests() as stop:
        return Stream(work, settings, console, stop).run()


class Stream:
    def __init__(
        self,
        work: RunWorker,
        settings: StreamSettings,
        console: Console,
        stop: StopRequest,
        commit: Callable[[RunWorker, OutputState, RunRecord, StreamSettings], Committed] = commit_ranges,
    ) -> None:
        # A load shows these two steps once; here they would come with each look at the logs.
        self._work = replace(work, steps=_leave_out(work.steps, CONNECTED, FINISHED))
        self._settings, self._console, self._stop, self._commit = settings, console, stop, commit
        self._topics = settings.topics.names
        self._start = position(settings.topics.start)
        self._query = settings.query_name
        self._rates = Rates(
            settings.max_offsets_per_trigger, settings.min_offsets_per_trigger, settings.max_trigger_delay_ms
        )
        self._known = self._work.output.read_newest()
        self._state = take_over(self._known.queries, self._query, run_id(now_ms(), os.urandom(4)))
        self._began = self._known.holdings
        self._batches = self._rows = self._offsets = self._dead = 0
        self._lag = 0
        self._news_since: float | None = None
        self._unreachable_since: float | None = None
        self._upkeep_at = self._stop.now_seconds()

    def run(self) -> Summary:
        """Batches until a stop, or until all that was there at the begin is loaded. Raises PipelineError."""
        self._show()
        ends: dict[PartitionKey, int] | None = None
        while not self._stop:
            began = self._stop.now_seconds()
            facts = self._read_facts()
            if facts is not None and self._settings.available_now:
                ends = ends_of(facts) if ends is None else pin_new_topics(facts, ends)
                facts = pin_facts(facts, ends)
            is_done = facts is not None and not self._run_batch(facts)
            if is_done and self._settings.available_now:
                break
            if facts is None or is_done:
                self._keep_up()
                pause = max(self._settings.trigger_ms / 1000, _PAUSE_SECONDS_MIN)
            else:
                pause = 0 if self._settings.available_now else self._settings.trigger_ms / 1000
            self._stop.wait_until(began + pause)
        self._console.steps(FINISHED)
        return self._summarize()

    def _read_facts(self) -> list[LogFacts] | None:
        """The log's facts; None while the brokers are out of reach for less than the stream bears."""
        try:
            facts = self._work.read_facts(self._topics, self._start, _LATEST, self._settings.reading)
        except (UnreachableError, AnswerTimeoutError) as failure:
            now = self._stop.now_seconds()
            if self._unreachable_since is None:
                self._unreachable_since = now
            is_over = (now - self._unreachable_since) * 1000 >= self._settings.max_outage_ms
            if self._settings.available_now or is_over:
                raise
            self._console.notice(f"waiting for the brokers: {failure}")
            return None
        self._unreachable_since = None
        return facts

    def _run_batch(self, facts: list[LogFacts]) -> bool:
        """One batch, if one is due; whether there was one."""
        self._lag = measure_lag(facts, self._known.holdings)
        plan = self._plan_batch(self._known, facts)
        if not _has_news(plan, self._known) or not self._is_due(plan):
            return False
        for tries in range(1, TRIES_MAX + 1):
            self._look()
            plan = self._plan_batch(self._known, facts)
            if not _has_news(plan, self._known):
                return False
            for lost in plan.lost:
                self._console.notice(f"passed over {lost}: the log no longer has these offsets")
            try:
                self._note_commit(
                    self._commit(self._work, self._known, self._make_record(plan), self._settings), facts
                )
                return True
            except FencedError as failure:
                if tries == TRIES_MAX:
                    raise
                self._console.notice(f"planned again: {failure}")
        raise AssertionError("the last try returns or raises")

    def _plan_batch(self, known: OutputState, facts: list[LogFacts]) -> Plan:
        return plan_load(
            known.holdings,
            facts,
            start=self._start,
            stop=_LATEST,
            on_truncated=self._settings.reading.on_truncated,
            on_recreated=self._settings.topics.on_recreated,
            offsets_max=self._rates.offsets_max,
        )

    def _is_due(self, plan: Plan) -> bool:
        if self._settings.available_now or not plan.ranges:
            return True
        if self._news_since is None:
            self._news_since = self._stop.now_seconds()
        return self._rates.is_due(plan.span, int((self._stop.now_seconds() - self._news_since) * 1000))

    def _look(self) -> None:
        """The table's holdings now. Raises FencedError when another driver took over."""
        self._known = self._work.output.read_newest()
        require_driver(self._known.queries, self._query, self._state)

    def _make_record(self, plan: Plan) -> RunRecord:
        state = next_batch(self._known.queries, self._query, self._state)
        queries = {**self._known.queries, self._query: state}
        return replace(new_record(STREAM, self._known, plan), details={QUERY: self._query}, queries=queries)

    def _note_commit(self, committed: Committed, facts: list[LogFacts]) -> None:
        record = committed.record
        self._known = OutputState(record, committed.version)
        self._news_since = None
        self._lag = measure_lag(facts, record.holdings)
        self._batches += 1
        self._rows += committed.rows or 0
        self._offsets += record.span
        self._dead += record.dead_count
        self._work.steps(
            BATCH,
            batch=record.queries[self._query].batch,
            run=record.run,
            rows=committed.rows,
            dead_letters=record.dead_count,
            offsets=record.span,
            lag=self._lag,
            seconds=round((record.committed_ms - record.started_ms) / 1000, 3),
        )
        self._show()

    def _show(self) -> None:
        """The positions to the group. What fails is said: a stream does not end for its display."""
        self._upkeep_at = self._stop.now_seconds() + _UPKEEP_SECONDS
        held = [one for one in self._list_held() if one.key.topic in self._topics]
        if not self._settings.show_progress or not held:
            return
        about = "" if self._known.record is None else self._known.record.run
        try:
            show_positions(self._work.connection.settings, self._settings.group_id, held, about)
        except PipelineError as failure:
            self._console.notice(f"the positions are not shown: {failure}")
        else:
            self._work.steps(SHOWN, group=self._settings.group_id)

    def _list_held(self) -> list[OffsetRange]:
        return self._known.holdings.ranges()

    def _keep_up(self) -> None:
        """Now and then without news: repeat the record above commits of others, and the group's offsets."""
        if self._stop.now_seconds() < self._upkeep_at:
            return
        self._look()
        if self._known.is_covered:
            plan = Plan(
                (), self._known.holdings, self._known.record.cluster_id if self._known.record else None
            )
            made = self._commit(
                self._work, self._known, new_record(REFRESH, self._known, plan), self._settings
            )
            self._known = OutputState(made.record, made.version)
        self._show()

    def _summarize(self) -> Summary:
        settings = self._settings
        facts = {
            "kind": STREAM,
            "query": self._query,
            "driver": self._state.driver,
            "output": settings.table.output,
            "version": self._known.version,
            "batches": self._batches,
            "rows": self._rows,
            "dead_letters": self._dead,
            "offsets": self._offsets,
            "lag": self._lag,
            "group": settings.group_id if settings.show_progress else None,
            "stopped_by": None if self._stop.signal is None else self._stop.signal.name,
        }
        title = (
            f"stream {self._query}: {self._rows} rows in {self._batches} batches into {settings.table.output}"
        )
        code = PipelineExitCode.INTERRUPTED if self._stop.signal is signal.SIGINT else PipelineExitCode.OK
        return Summary(title, facts, list(self._list_moves()), code, RANGES)

    def _list_moves(self) -> Iterator[dict[str, object]]:
        """A row for each partition that this driver moved on."""
        for one in self._list_held():
            before = self._began.end(one.key)
            start = one.start if before is None else before
            if start < one.end and one.key.topic in self._topics:
                yield {
                    "topic": one.key.topic,
                    "partition": one.key.partition,
                    "start": start,
                    "end": one.end,
                }


def _leave_out(steps: Steps, *names: str) -> Steps:
    """`steps` that leave some of them out."""

    def report_step(name: str, /, **figures: object) -> None:
        if name not in names:
            steps(name, **figures)

    return report_step


def _has_news(plan: Plan, known: OutputState) -> bool:
    return bool(plan.ranges or plan.lost) or plan.holdings != known.holdings
