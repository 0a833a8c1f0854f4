"""Records in flight under any order of events, against a model that has each offset for itself.

The log of the model has batches of different sizes, with holes that compaction left, and aborted transactions. Members
acquire, acknowledge, renew and leave; locks end, writes succeed or fail in any order, and the log's start moves.
"""

from __future__ import annotations

import math
from itertools import pairwise

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from odradek.broker.share_states.states import StateRange
from odradek.broker.shares import acknowledgement
from odradek.broker.shares.acknowledgement import AcknowledgedBatch, DeadLetter, DeliveryRules, PendingChange
from odradek.broker.shares.acquisition import AcquiredRange, Terms, acquire
from odradek.broker.shares.in_flight import InFlight
from odradek.broker.shares.record_batches import FoundBatch, RecordBatches
from odradek.broker.shares.runs import RecordState
from odradek.foundation.errors import InvalidRecordState, InvalidRequest
from tests.support.examples import examples

LOCK_SECONDS = 30.0
AVAILABLE, ACQUIRED = RecordState.AVAILABLE, RecordState.ACQUIRED
ACKNOWLEDGED, ARCHIVING, ARCHIVED = RecordState.ACKNOWLEDGED, RecordState.ARCHIVING, RecordState.ARCHIVED
MEMBERS = st.sampled_from(["a", "b"])


class ModelRecord:
    """One offset in flight."""

    def __init__(self, count: int = 0, state: int = AVAILABLE) -> None:
        self.state, self.count = state, count
        self.member, self.locked_until = "", 0.0
        self.before: tuple[int, str] | None = None

    @property
    def is_done(self) -> bool:
        return self.state in (ACKNOWLEDGED, ARCHIVED) and self.before is None


class InFlightModel(RuleBasedStateMachine):
    """The model beside the real one. `stored` is what a leader that follows would load."""

    @initialize(
        sizes=st.lists(
            st.tuples(st.integers(1, 6), st.integers(0, 2), st.booleans()), min_size=4, max_size=20
        ),
        start=st.integers(0, 3),
        deliveries=st.integers(2, 6),
        has_dead_letters=st.booleans(),
        in_flight_max=st.integers(3, 40),
    )
    def begin(
        self,
        sizes: list[tuple[int, int, bool]],
        start: int,
        deliveries: int,
        has_dead_letters: bool,
        in_flight_max: int,
    ) -> None:
        self.log: list[FoundBatch] = []
        self.aborted: set[int] = set()
        offset = start
        for number, (size, hole, is_aborted) in enumerate(sizes):
            producer = number if is_aborted and number % 3 == 0 else -1
            self.log.append(FoundBatch(offset, offset + size - 1, number, 1, producer))
            if producer >= 0:
                self.aborted.update(range(offset, offset + size))
            offset += size + hole
        self.real = InFlight(start)
        self.start = self.next = start
        self.records: dict[int, ModelRecord] = {}
        self.limits = DeliveryRules(deliveries, has_dead_letters=has_dead_letters)
        self.in_flight_max = in_flight_max
        self.now = 100.0
        self.writes: list[PendingChange] = []
        self.letters: list[DeadLetter] = []

    # --- the model ----------------------------------------------------------------------------------------------

    def expected_next(self) -> int:
        free = [o for o, r in self.records.items() if r.state == AVAILABLE and r.before is None]
        return min(free, default=self.next)

    def move_start(self) -> None:
        for offset in sorted(self.records):
            if not self.records[offset].is_done:
                self.start = max(self.start, offset)
                return
            del self.records[offset]
        self.start = self.next

    def readable(self, offset: int, size: int) -> list[FoundBatch]:
        return [batch for batch in self.log if batch.last_offset >= offset][:size]

    # --- what happens -------------------------------------------------------------------------------------------

    @rule(
        member=MEMBERS,
        records_max=st.integers(1, 12),
        batch_size=st.integers(1, 8),
        is_strict=st.booleans(),
        size=st.integers(1, 8),
    )
    def acquire(self, member: str, records_max: int, batch_size: int, is_strict: bool, size: int) -> None:
        fetch_offset = self.real.next_fetch_offset()
        readable = self.readable(fetch_offset, size)
        if not self.real.can_acquire(self.in_flight_max) or not readable:
            return
        base, end = readable[0].base_offset, readable[-1].last_offset
        aborted = [(batch.producer_id, batch.base_offset) for batch in readable if batch.producer_id >= 0]
        in_flight_before = self.real.count
        before = self.expected_next()
        got = acquire(
            self.real,
            Terms(
                member,
                records_max,
                batch_size,
                is_strict,
                self.in_flight_max,
                self.limits.delivery_count_max,
                self.now + LOCK_SECONDS,
            ),
            RecordBatches(readable, aborted),
            fetch_offset=fetch_offset,
        )
        assert fetch_offset == before
        self.stale(fetch_offset, base)
        self.check_acquired(got, base, end)
        wanted = min(records_max, self.in_flight_max - in_flight_before)
        taken = self.follow_acquired(got, member, base, end)
        if is_strict:
            assert taken <= max(wanted, records_max if wanted <= 0 else wanted)
        self.move_start()

    def stale(self, fetch_offset: int, base: int) -> None:
        """What compaction removed is archived where it was available."""
        for offset in range(fetch_offset, base):
            known = self.records.get(offset)
            if known is not None and known.state == AVAILABLE and known.before is None:
                known.state = ARCHIVED

    def check_acquired(self, got: list[AcquiredRange], base: int, end: int) -> None:
        for one in got:
            assert base <= one.first <= one.last <= end
            for offset in range(one.first, one.last + 1):
                known = self.records.get(offset)
                assert offset not in self.aborted
                if known is None:
                    assert offset >= self.next or offset < self.start
                    assert offset >= self.next
                    assert one.delivery_count == 1
                else:
                    assert known.state == AVAILABLE and known.before is None
                    assert one.delivery_count == known.count + 1 <= self.limits.delivery_count_max
        assert all(one.last < other.first for one, other in pairwise(got))

    def follow_acquired(self, got: list[AcquiredRange], member: str, base: int, end: int) -> int:
        """Make the model what the real one has become. Aborted records were acquired and archived at once."""
        taken = 0
        if not self.records and self.real.next_offset > self.next:
            self.start = max(self.start, max(self.next, base))
        for offset in range(max(self.next, base), self.real.next_offset):
            self.records[offset] = ModelRecord()
        self.next = max(self.next, self.real.next_offset)
        for one in got:
            for offset in range(one.first, one.last + 1):
                known = self.records[offset]
                known.state, known.count = ACQUIRED, one.delivery_count
                known.member, known.locked_until = member, self.now + LOCK_SECONDS
                taken += 1
        for offset in self.aborted:
            run, one_known = self.real.find(offset), self.records.get(offset)
            if one_known is None or not base <= offset <= end or one_known.state != AVAILABLE:
                continue
            if run is None or run.state == ARCHIVED:
                one_known.state, taken = ARCHIVED, taken + 1
                one_known.count += 1
        return taken

    @precondition(lambda self: self.records)
    @rule(data=st.data(), member=MEMBERS)
    def acknowledge(self, data: st.DataObject, member: str) -> None:
        first = data.draw(st.integers(min(self.records) - 2, max(self.records)))
        last = data.draw(st.integers(first, max(self.records) + 1))
        kinds = st.integers(0, 4)
        if data.draw(st.booleans()):
            types = [data.draw(kinds)] * 1
        else:
            types = data.draw(st.lists(kinds, min_size=last - first + 1, max_size=last - first + 1))
        said = AcknowledgedBatch(first, last, types)
        named = [offset for offset in range(max(first, self.start), last + 1) if offset in self.records]
        may = all(
            self.records[o].state == ACQUIRED
            and self.records[o].before is None
            and self.records[o].member == member
            for o in named
        )
        locked_until = self.now + LOCK_SECONDS
        try:
            change = acknowledgement.acknowledge(
                self.real, member, [said], self.limits, locked_until=locked_until
            )
        except (InvalidRecordState, InvalidRequest):
            assert not may or not named or not {first, last} <= self.records.keys()
            self.renew_refused(named, said, member, locked_until)
            return
        assert may
        for offset in named:
            kind = types[0] if len(types) == 1 else types[offset - first]
            known = self.records[offset]
            if kind == 4:
                known.locked_until = locked_until
                continue
            state = {0: ARCHIVED, 1: ACKNOWLEDGED, 2: AVAILABLE, 3: ARCHIVED}[kind]
            if kind == 3 and self.limits.has_dead_letters:
                state = ARCHIVING
            self.change(known, state)
        self.keep(change)

    def renew_refused(
        self, named: list[int], said: AcknowledgedBatch, member: str, locked_until: float
    ) -> None:
        """As in Kafka, what was renewed before the refusal stays so."""
        del member
        for offset in named:
            run, known = self.real.find(offset), self.records[offset]
            assert run is not None
            if run.locked_until == locked_until and known.state == ACQUIRED:
                known.locked_until = locked_until
        del said

    def change(self, known: ModelRecord, state: int) -> None:
        if state == AVAILABLE and known.count >= self.limits.delivery_count_max:
            state = ARCHIVING if self.limits.has_dead_letters else ARCHIVED
        known.before = (known.state, known.member)
        known.state, known.member = state, ""

    def keep(self, change: PendingChange) -> None:
        if change.is_empty:
            assert not change.runs
            acknowledgement.commit(self.real, change)
            self.move_start()
            return
        assert all(one.last_offset < other.first_offset for one, other in pairwise(change.states))
        self.writes.append(change)

    @rule(member=MEMBERS)
    def leave(self, member: str) -> None:
        change = acknowledgement.release(self.real, member, self.limits)
        for known in self.records.values():
            if known.state == ACQUIRED and known.before is None and known.member == member:
                self.change(known, AVAILABLE)
        self.keep(change)

    @precondition(lambda self: self.writes)
    @rule(data=st.data(), succeeds=st.booleans())
    def write_ends(self, data: st.DataObject, succeeds: bool) -> None:
        change = self.writes.pop(data.draw(st.integers(0, len(self.writes) - 1)))
        offsets = [o for run in change.runs for o in range(run.first, run.last + 1)]
        if succeeds:
            acknowledgement.commit(self.real, change)
            self.letters += change.dead_letters
        else:
            self.letters += acknowledgement.roll_back(self.real, change, now=self.now)
        for offset in offsets:
            known = self.records[offset]
            assert known.before is not None
            before, known.before = known.before, None
            if succeeds:
                known.locked_until = 0.0
            elif known.locked_until > self.now:
                known.state, known.member = before
            else:
                known.member = ""
                known.state = AVAILABLE
                if known.count >= self.limits.delivery_count_max:
                    known.state = ARCHIVING if self.limits.has_dead_letters else ARCHIVED
        self.move_start()

    @precondition(lambda self: self.letters)
    @rule(data=st.data())
    def letters_arrive(self, data: st.DataObject) -> None:
        """Those of one part are archived together."""
        count = data.draw(st.integers(1, len(self.letters)))
        arrived, self.letters = self.letters[:count], self.letters[count:]
        offsets = [o for one in arrived for o in range(one.run.first, one.run.last + 1)]
        change = acknowledgement.finish_dead_letters(self.real, arrived)
        for offset in offsets:
            assert self.records[offset].state == ARCHIVING
            self.records[offset].state = ARCHIVED
        acknowledgement.commit(self.real, change)
        self.move_start()

    @rule(seconds=st.sampled_from([1.0, 29.0, 31.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        change = acknowledgement.expire(self.real, self.limits, now=self.now)
        for known in self.records.values():
            if known.state == ACQUIRED and known.before is None and known.locked_until <= self.now:
                self.change(known, AVAILABLE)
                known.before, known.locked_until = None, 0.0
        self.letters += change.dead_letters
        acknowledgement.commit(self.real, change)
        self.move_start()

    @rule(by=st.integers(1, 6))
    def log_start_moves(self, by: int) -> None:
        offset = self.start + by
        self.real.advance_log_start(offset)
        for known in [o for o in self.records if o < offset]:
            del self.records[known]
        self.start, self.next = offset, max(self.next, offset)
        self.move_start()

    @precondition(lambda self: not self.writes and not self.letters)
    @rule()
    def another_leader_loads(self) -> None:
        """What is acquired becomes available; what was never stored has no delivery."""
        states = [
            StateRange(offset, offset, known.state, known.count)
            for offset, known in sorted(self.records.items())
            if known.count and known.state != ACQUIRED
        ]
        self.real = InFlight.load(self.start, states)
        stored = {state.first_offset for state in states}
        end = max(stored, default=self.start - 1) + 1
        fresh: dict[int, ModelRecord] = {}
        for offset in range(self.start, end):
            fresh[offset] = self.records[offset] if offset in stored else ModelRecord()
        self.records, self.next = fresh, end
        self.move_start()

    # --- what always holds --------------------------------------------------------------------------------------

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "real"):
            return
        real = {o: run for run in self.real.runs() for o in range(run.first, run.last + 1)}
        assert real.keys() == self.records.keys()
        for offset, run in real.items():
            known = self.records[offset]
            assert (run.state, run.delivery_count, run.member) == (known.state, known.count, known.member)
            assert (run.before is None) == (known.before is None)
            if known.state == ACQUIRED:
                assert run.locked_until == known.locked_until
        assert (self.real.start_offset, self.real.next_offset) == (self.start, self.next)
        assert self.real.next_fetch_offset() == self.expected_next()
        done = sum(1 for known in self.records.values() if known.state in (ACKNOWLEDGED, ARCHIVED))
        assert self.real.delivery_complete_count == done
        locks = [r.locked_until for r in self.records.values() if r.state == ACQUIRED]
        assert self.real.next_deadline() == min(locks, default=math.inf)

    @invariant()
    def is_in_order(self) -> None:
        if not hasattr(self, "real"):
            return
        runs = list(self.real.runs())
        assert all(one.last < other.first for one, other in pairwise(runs))
        assert all(batch.runs for batch in self.real.batches)
        assert self.real.run_count <= len(self.records)


TestInFlightModel = InFlightModel.TestCase
TestInFlightModel.settings = settings(max_examples=examples(200), stateful_step_count=40)
