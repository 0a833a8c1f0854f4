"""A share-partition at work: writes that wait, and what its state costs."""

from __future__ import annotations

import asyncio
import sys
import time

from odradek.broker.share_states.states import StateRange
from odradek.broker.shares import acknowledgement
from odradek.broker.shares.acknowledgement import AcknowledgedBatch, DeliveryRules
from odradek.broker.shares.acquisition import Terms, acquire
from odradek.broker.shares.in_flight import InFlight
from odradek.broker.shares.record_batches import FoundBatch, RecordBatches
from odradek.broker.shares.state_writer import overlap
from tests.broker.requests.test_share_fetch import begun
from tests.support.share_consumer import ACCEPT, RELEASE, ShareConsumer

LIMIT = 2000
RATIO_MAX = 8


async def test_records_whose_acknowledgement_is_being_stored_wait_for_it() -> None:
    broker, states, first = await begun(batches=1)
    second = ShareConsumer(broker, member_id="n")
    assert await first.acquire(max_wait=100) == [(0, 0, 1)]
    states.go.clear()
    storing = asyncio.ensure_future(first.acknowledge((0, 0, [RELEASE])))
    await asyncio.sleep(0.1)
    assert await second.acquire() == []
    waiting = asyncio.ensure_future(second.acquire(max_wait=10_000))
    await asyncio.sleep(0.1)
    states.go.set()
    assert (await storing).responses[0].partitions[0].error_code == 0
    assert await waiting == [(0, 0, 2)]


async def test_changes_that_come_during_a_write_share_the_next_one() -> None:
    _, states, member = await begun(batches=10)
    assert await member.acquire(max_wait=100) == [(0, 9, 1)]
    states.go.clear()
    epoch = member.epoch
    answers = []
    for offset in range(10):
        asked = member.acknowledge((offset, offset, [ACCEPT]), share_session_epoch=epoch + offset)
        answers.append(asyncio.ensure_future(asked))
        await asyncio.sleep(0.1)
    states.go.set()
    codes = [(await one).responses[0].partitions[0].error_code for one in answers]
    assert codes == [0] * 10
    assert [change.batches for _, change in states.changes] == [
        [StateRange(0, 0, 2, 1)],
        [StateRange(1, 9, 2, 1)],
    ]


def test_offsets_in_common_are_found() -> None:
    one, two = StateRange(0, 4, 2, 1), StateRange(8, 9, 2, 1)
    assert overlap([one, two], [StateRange(4, 4, 0, 1)])
    assert overlap([one, two], [StateRange(5, 8, 0, 1)])
    assert not overlap([one, two], [StateRange(5, 7, 0, 1), StateRange(10, 12, 0, 1)])


# --- costs ----------------------------------------------------------------------------------------------------------


def terms(count: int) -> Terms:
    return Terms("m", count, 1, False, count, 5, locked_until=30.0)


def in_flight_of(count: int, *, batch_records: int = 1) -> InFlight:
    """`count` records that a member has acquired."""
    in_flight = InFlight(0)
    batches = [
        FoundBatch(first, first + batch_records - 1, first, 1) for first in range(0, count, batch_records)
    ]
    acquire(in_flight, terms(count), RecordBatches(batches), fetch_offset=0)
    return in_flight


def seconds_to_acknowledge_each(count: int) -> float:
    """Processor time of one acknowledgement whose types differ from record to record, and of its commit."""
    in_flight = in_flight_of(count, batch_records=count)
    said = AcknowledgedBatch(0, count - 1, [ACCEPT, RELEASE] * (count // 2))
    begin = time.thread_time()
    change = acknowledgement.acknowledge(in_flight, "m", [said], DeliveryRules(5), locked_until=60.0)
    acknowledgement.commit(in_flight, change)
    return time.thread_time() - begin


def test_an_acknowledgement_costs_as_much_as_it_names() -> None:
    ratios = []
    for _ in range(4):  # Other work of the machine may disturb one measurement: the best of them counts.
        few, many = (seconds_to_acknowledge_each(size) for size in (LIMIT, 4 * LIMIT))
        ratios.append(many / few)
        if ratios[-1] < RATIO_MAX:
            return
    raise AssertionError(f"four times the records cost {min(ratios):.1f} times as much")


def test_what_is_in_flight_is_bounded_by_its_records() -> None:
    """Runs, batches and heaps stay as few as records, however often those are acquired, released and renewed."""
    in_flight = InFlight(0)
    batches = [FoundBatch(0, LIMIT - 1, 0, 1)]
    rules = DeliveryRules(1_000_000)
    for turn in range(50):
        fetch_offset = in_flight.next_fetch_offset()
        acquire(
            in_flight,
            Terms("m", LIMIT, 1, turn % 2 == 0, LIMIT, 1_000_000, locked_until=30.0 + turn),
            RecordBatches(batches),
            fetch_offset=fetch_offset,
        )
        said = AcknowledgedBatch(0, LIMIT - 1, [RELEASE, 4] * (LIMIT // 2))
        change = acknowledgement.acknowledge(in_flight, "m", [said], rules, locked_until=40.0 + turn)
        acknowledgement.commit(in_flight, change)
        change = acknowledgement.release(in_flight, "m", rules)
        acknowledgement.commit(in_flight, change)
    assert in_flight.run_count <= LIMIT
    assert len(in_flight._available) <= 2 * LIMIT + 64
    assert len(in_flight._locks) <= 2 * LIMIT + 64
    size = sum(sys.getsizeof(run) for run in in_flight.runs())
    assert size <= LIMIT * 200
