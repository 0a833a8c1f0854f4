"""The log against a list: after every operation, it holds what the list holds.

A crash may take what was not flushed, and only from the end; what was flushed must be there.
"""

from __future__ import annotations

import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from odradek.storage.config import LogConfig
from odradek.storage.log import Log
from odradek.wire.records.record import Record
from tests.support.disk import SimulatedDisk
from tests.support.examples import examples
from tests.support.logs import START_MS, StillClock, batch, open_log, stored_records

CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=100)


class LogMachine(RuleBasedStateMachine):
    """`model` maps offsets to (value, timestamp); the log must agree after every step."""

    @initialize()
    def start(self) -> None:
        self.disk = SimulatedDisk()
        self.clock = StillClock()
        self.model: dict[int, tuple[bytes, int]] = {}
        self.deleted: dict[int, int] = {}  # the times of deleted records by offset
        self.start_offset = self.end_offset = self.flushed_offset = 0
        self.epoch = 0
        self.counter = 0
        self.log: Log = open_log(self.disk, clock=self.clock, config=CONFIG)

    def _value(self) -> bytes:
        self.counter += 1
        return b"value-%d-" % self.counter + b"x" * (self.counter * 7 % 120)

    @rule(count=st.integers(1, 5), late_ms=st.integers(-500, 500))
    def append(self, count: int, late_ms: int) -> None:
        values = [self._value() for _ in range(count)]
        timestamp_ms = START_MS + self.counter + late_ms
        result = self.log.append(batch(*values, timestamp_ms=timestamp_ms), leader_epoch=self.epoch)
        assert (result.first_offset, result.last_offset) == (self.end_offset, self.end_offset + count - 1)
        for value in values:
            self.model[self.end_offset] = (value, timestamp_ms)
            self.end_offset += 1
        self.flushed_offset = max(self.flushed_offset, self.log.recovery_point)

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.flushed_offset = self.end_offset
        assert self.log.recovery_point == self.end_offset

    @rule()
    def lead(self) -> None:
        self.epoch += 1
        self.log.assign_leader_epoch(self.epoch)

    @rule(back=st.integers(0, 12))
    def truncate(self, back: int) -> None:
        target = max(self.start_offset, self.end_offset - back)
        self.log.truncate_to(target)
        self.end_offset = self.log.log_end_offset
        # A batch that reaches over the target goes as a whole; none is longer than five records.
        assert target - 5 < self.end_offset <= target
        for offset in [one for one in self.model if one >= self.end_offset]:
            del self.model[offset]
        self.start_offset = min(self.start_offset, self.end_offset)
        self.flushed_offset = min(self.flushed_offset, self.end_offset)

    @rule(forward=st.integers(0, 8))
    def delete_records(self, forward: int) -> None:
        self.start_offset = min(self.start_offset + forward, self.end_offset)
        self.log.advance_log_start(self.start_offset)
        self.log.delete_old_segments()
        self._forget_deleted()

    def _forget_deleted(self) -> None:
        for offset in [one for one in self.model if one < self.start_offset]:
            self.deleted[offset] = self.model.pop(offset)[1]

    @rule()
    def reopen(self) -> None:
        self.log.close()
        self.flushed_offset = self.end_offset
        self.log = open_log(
            self.disk, clock=self.clock, config=CONFIG, clean=True, log_start_offset=self.start_offset
        )
        assert self.log.recovered_bytes == 0

    @rule()
    def kill(self) -> None:
        recovery_point = self.log.recovery_point
        self.disk.kill()
        self.log = open_log(
            self.disk,
            clock=self.clock,
            config=CONFIG,
            recovery_point=recovery_point,
            log_start_offset=self.start_offset,
        )
        self._agree_on_end(self.log.log_end_offset)

    @rule(seed=st.integers(0, 2**32))
    def crash(self, seed: int) -> None:
        recovery_point = self.log.recovery_point
        self.disk.crash(random.Random(seed))
        self.log = open_log(
            self.disk,
            clock=self.clock,
            config=CONFIG,
            recovery_point=recovery_point,
            log_start_offset=self.start_offset,
        )
        end = self.log.log_end_offset
        assert end >= self.flushed_offset, "a flushed record is gone"
        self._agree_on_end(end)

    def _agree_on_end(self, end: int) -> None:
        for offset in [one for one in self.model if one >= end]:
            del self.model[offset]
        self.end_offset = end
        self.start_offset = self.log.log_start_offset
        self.flushed_offset = min(self.flushed_offset, end)
        self._forget_deleted()

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def look_up(self, data: st.DataObject) -> None:
        timestamp_ms = data.draw(st.sampled_from(sorted({at for _, at in self.model.values()}))) - data.draw(
            st.integers(0, 3)
        )
        found = self.log.offset_for_timestamp(timestamp_ms)
        expected = min((offset for offset, (_, at) in self.model.items() if at >= timestamp_ms), default=None)
        assert (None if found is None else found.offset) == expected
        newest = self.log.offset_of_max_timestamp()
        newest_ms = max(at for _, at in self.model.values())
        assert newest is not None
        if newest.offset < self.start_offset:
            # As Kafka's: a deleted record counts until its segment is removed.
            assert newest.timestamp_ms == self.deleted[newest.offset] >= newest_ms
        else:
            assert newest.timestamp_ms == newest_ms
            assert newest.offset == min(offset for offset, (_, at) in self.model.items() if at == newest_ms)

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        assert self.log.log_end_offset == self.end_offset
        assert self.log.log_start_offset == self.start_offset
        assert self.log.recovery_point <= self.end_offset
        found = {record.offset: (record.value, record.timestamp_ms) for record in stored_records(self.log)}
        assert found == self.model
        for offset in self.model:
            first: Record = stored_records(self.log, from_offset=offset)[0]
            assert first.offset == offset


LogMachine.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=30, deadline=None)
TestLog = LogMachine.TestCase
