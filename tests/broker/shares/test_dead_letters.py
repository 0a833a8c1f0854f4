"""Dead-letter topics of share groups (KIP-1191): what is written there, when, and what becomes of failures."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from odradek.broker.share_states.states import ShareKey, ShareState, StateChange, StateRange
from odradek.foundation.errors import CoordinatorNotAvailable
from odradek.metadata.controller.requests import NewTopic
from odradek.wire.protocol.api import ApiKey
from odradek.wire.records.batch import split
from odradek.wire.records.builder import build_batch
from odradek.wire.records.record import Record, records
from tests.broker.requests.test_share_fetch import begun, set_group
from tests.support.share_consumer import ACCEPT, REJECT, RELEASE, ShareConsumer
from tests.support.share_states import MemoryShareStates
from tests.support.whole_broker import START_MS, WholeBroker

ARCHIVING, ARCHIVED = 3, 4
NAME_KEY = "errors.deadletterqueue.topic.name"
COPY_KEY = "errors.deadletterqueue.copy.record.enable"


async def begun_with_topic(
    *, batches: int = 2, **config: Any
) -> tuple[WholeBroker, MemoryShareStates, ShareConsumer]:
    """A broker whose group g has the dead-letter topic dlq.t, which exists."""
    broker, states, member = await begun(batches=batches)
    await broker.create_topic("dlq.t", errors_deadletterqueue_group_enable="true", **config)
    await set_group(broker, "g", **{NAME_KEY: "dlq.t"})
    return broker, states, member


def letters(broker: WholeBroker, topic: str = "dlq.t", partition: int = 0) -> list[Record]:
    log = broker.broker.partitions.get(topic, partition).log
    if log.log_end_offset == 0:
        return []
    data = log.read(0, bytes_max=1 << 24, at_least_one_batch=True).read()
    return [record for batch in split(memoryview(data)) for record in records(batch)]


def origins(found: list[Record]) -> list[tuple[int, int]]:
    """(offset, delivery count) of each dead letter."""
    return [(int(one.headers[2][1] or b""), int(one.headers[4][1] or b"")) for one in found]


class Gate:
    """What is written to dead-letter topics goes through here: it waits for `go`, and fails while `failures` last."""

    def __init__(self, broker: WholeBroker) -> None:
        writer = broker.broker.coordinators.dead_letters
        self.real = writer._transport
        writer._transport = self
        self.go = asyncio.Event()
        self.go.set()
        self.failures = 0
        self.tries: list[float] = []

    async def send(self, broker_id: int, request: Any) -> Any:
        self.tries.append(asyncio.get_running_loop().time())
        await self.go.wait()
        if len(self.tries) <= self.failures:
            raise ConnectionError("the broker is away")
        return await self.real.send(broker_id, request)

    def interrupt(self, broker_id: int) -> None:
        self.real.interrupt(broker_id)


def hold_produce(broker: WholeBroker) -> asyncio.Event:
    """Let what is written to dead-letter topics wait until the event is set."""
    gate = Gate(broker)
    gate.go.clear()
    return gate.go


# --- what is written ------------------------------------------------------------------------------------------------


async def test_a_rejected_record_is_archived_once_its_dead_letter_is_written() -> None:
    broker, states, member = await begun_with_topic()
    go = hold_produce(broker)
    assert await member.acquire(max_wait=100) == [(0, 1, 1)]
    await member.must_acknowledge((0, 1, [REJECT, ACCEPT]))
    await asyncio.sleep(1)
    assert states.states[member.key()].batches == (
        StateRange(0, 0, ARCHIVING, 1),
        StateRange(1, 1, 2, 1),
    )
    assert await member.acquire() == []
    go.set()
    await asyncio.sleep(0.1)
    (letter,) = letters(broker)
    assert (letter.key, letter.value) == (None, None)
    assert letter.headers == (
        ("__dlq.errors.topic", b"t"),
        ("__dlq.errors.partition", b"0"),
        ("__dlq.errors.offset", b"0"),
        ("__dlq.errors.group", b"g"),
        ("__dlq.errors.delivery.count", b"1"),
        ("__dlq.errors.message", b"Offset rejected by client."),
    )
    assert states.changes[-1][1].batches == [StateRange(0, 0, ARCHIVED, 1)]


async def test_a_record_that_was_delivered_too_often_becomes_a_dead_letter() -> None:
    broker, states, member = await begun_with_topic(batches=1)
    for delivery in range(1, 6):
        assert await member.acquire(max_wait=100) == [(0, 0, delivery)]
        await member.must_acknowledge((0, 0, [RELEASE]))
    await asyncio.sleep(0.1)
    (letter,) = letters(broker)
    assert dict(letter.headers)["__dlq.errors.message"] == b"Offset delivery count exceeded the threshold."
    assert states.states[member.key()].batches == (StateRange(0, 0, ARCHIVED, 5),)


async def test_the_end_of_the_last_lock_makes_a_dead_letter() -> None:
    broker, states, member = await begun_with_topic(batches=1)
    await set_group(broker, "g", **{"share.delivery.count.limit": "2"})
    for delivery in (1, 2):
        assert await member.acquire(max_wait=60_000) == [(0, 0, delivery)]
    await asyncio.sleep(31)
    assert origins(letters(broker)) == [(0, 2)]
    assert states.states[member.key()].batches == (StateRange(0, 0, ARCHIVED, 2),)


async def test_copies_have_key_and_value_and_others_only_their_origin() -> None:
    broker, _, member = await begun_with_topic(batches=0, max_message_bytes="600")
    await set_group(broker, "g", **{COPY_KEY: "true"})
    rows: list[tuple[Any, ...]] = [(START_MS, b"k%d" % n, b"v%d" % n, (("h", b"1"),)) for n in range(3)]
    rows.append((START_MS, b"k3", b"v" * 600, ()))
    data = [{"index": 0, "records": bytes(build_batch(rows, compression=1))}]
    await broker.ask(
        ApiKey.PRODUCE, 9, acks=1, timeout=1000, topic_data=[{"name": "t", "partition_data": data}]
    )
    assert await member.acquire(max_wait=100) == [(0, 3, 1)]
    await member.must_acknowledge((0, 3, [REJECT]))
    await asyncio.sleep(0.1)
    found = letters(broker)
    assert [(one.key, one.value) for one in found] == [
        (b"k0", b"v0"),
        (b"k1", b"v1"),
        (b"k2", b"v2"),
        (None, None),
    ]
    assert origins(found) == [(0, 1), (1, 1), (2, 1), (3, 1)]
    assert {name for one in found for name, _ in one.headers} == {name for name, _ in found[0].headers}


async def test_a_topic_may_compress_its_records_and_give_them_its_own_times() -> None:
    broker, _, member = await begun_with_topic(
        batches=0, compression_type="gzip", message_timestamp_type="LogAppendTime"
    )
    await broker.produce("t", *[b"v"] * 400)
    assert await member.acquire(max_wait=100) == [(0, 399, 1)]
    await member.must_acknowledge((0, 399, [REJECT]))
    await asyncio.sleep(1)
    assert [offset for offset, _ in origins(letters(broker))] == list(range(400))


async def test_copies_of_many_batches_fill_batches_of_their_own() -> None:
    broker, _, member = await begun_with_topic(batches=0)
    await set_group(broker, "g", **{COPY_KEY: "true"})
    for number in range(12):
        await broker.produce("t", *[b"%d" % number * 40_000] * 5)
    for _ in range(3):
        for first, last, _count in await member.acquire(max_wait=100):
            await member.must_acknowledge((first, last, [REJECT]))
    await asyncio.sleep(5)
    found = letters(broker)
    assert [(offset, one.value) for (offset, _), one in zip(origins(found), found, strict=True)] == [
        (number, b"%d" % (number // 5) * 40_000) for number in range(60)
    ]


async def test_a_copy_that_is_deleted_meanwhile_leaves_its_origin() -> None:
    broker, _, member = await begun_with_topic(batches=3)
    await set_group(broker, "g", **{COPY_KEY: "true"})
    go = hold_produce(broker)
    assert await member.acquire(max_wait=100) == [(0, 2, 1)]
    broker.broker.partitions.get("t", 0).require_leader().delete_records(2)
    await member.must_acknowledge((0, 2, [REJECT]))
    go.set()
    await asyncio.sleep(1)
    assert [one.value for one in letters(broker)] == [None, None, b"2"]


async def test_partitions_go_to_partitions_by_their_number() -> None:
    broker, _, member = await begun(batches=1, partitions=3)
    (made,) = await broker.broker.control.controller.create_topics(
        [NewTopic("dlq.t", 2, config={"errors.deadletterqueue.group.enable": "true"})]
    )
    assert not isinstance(made, Exception)
    await set_group(broker, "g", **{NAME_KEY: "dlq.t"})
    for _ in range(3):
        await member.acquire(max_wait=100)
    for index in range(3):
        await member.must_acknowledge((0, 0, [REJECT]), index=index)
    await asyncio.sleep(0.1)
    placed = [[one.headers[1][1] for one in letters(broker, partition=n)] for n in (0, 1)]
    assert placed == [[b"0", b"2"], [b"1"]]


async def test_many_dead_letters_are_written_in_batches_that_the_topic_takes() -> None:
    broker, states, member = await begun_with_topic(batches=0, max_message_bytes="2000")
    await broker.produce("t", *[b"v"] * 1200)
    assert await member.acquire(max_wait=100, max_records=1200) == [(0, 1199, 1)]
    await member.must_acknowledge((0, 1199, [REJECT, ACCEPT] * 600))
    await asyncio.sleep(5)
    assert [offset for offset, _ in origins(letters(broker))] == list(range(0, 1200, 2))
    assert all(batch.delivery_state in (2, ARCHIVED) for batch in states.states[member.key()].batches)
    assert await member.acquire() == []


# --- the topic ------------------------------------------------------------------------------------------------------


async def test_a_missing_topic_is_created_where_the_broker_may() -> None:
    broker, states, member = await begun(batches=1, errors_deadletterqueue_auto_create_topics_enable="true")
    await set_group(broker, "g", **{NAME_KEY: "dlq.new"})
    await member.acquire(max_wait=100)
    await member.must_acknowledge((0, 0, [REJECT]))
    await asyncio.sleep(1)
    assert origins(letters(broker, "dlq.new")) == [(0, 1)]
    image = broker.broker.images.current
    assert image.configs["topics", "dlq.new"] == {  # type: ignore[index]
        "errors.deadletterqueue.group.enable": "true",
        "message.timestamp.type": "CreateTime",
    }
    assert states.changes[-1][1].batches == [StateRange(0, 0, ARCHIVED, 1)]


@pytest.mark.parametrize(
    ("name", "existing", "said"),
    [
        ("dlq.missing", None, "is missing; create it with errors.deadletterqueue.group.enable=true"),
        ("dlq.t", "false", "takes no dead letters of g"),
        ("other", "true", "its name must begin with dlq."),
    ],
)
async def test_records_are_archived_without_a_topic_that_may_be_written(
    name: str, existing: str | None, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker, states, member = await begun(batches=1)
    if existing is not None:
        await broker.create_topic(name, errors_deadletterqueue_group_enable=existing)
    await set_group(broker, "g", **{NAME_KEY: name})
    await member.acquire(max_wait=100)
    await member.must_acknowledge((0, 0, [REJECT]))
    await asyncio.sleep(0.1)
    assert states.states[member.key()].batches == (StateRange(0, 0, ARCHIVED, 1),)
    assert said in caplog.text
    assert "1 records of t-0 from offset 0 on are archived without dead letters of g" in caplog.text
    assert broker.broker.coordinators.dead_letters.counts.of("g").refused == 1


async def test_a_group_cannot_name_a_topic_of_the_cluster() -> None:
    broker, _, _ = await begun()
    with pytest.raises(AssertionError, match="DLQ topic name must not start with '__'"):
        await set_group(broker, "g", **{NAME_KEY: "__consumer_offsets"})


async def test_without_level_2_of_the_feature_rejected_records_are_archived() -> None:
    broker, states, member = await begun_with_topic()
    answer = await broker.ask(
        ApiKey.UPDATE_FEATURES,
        1,
        timeout=1000,
        feature_updates=[{"feature": "share.version", "max_version_level": 1, "upgrade_type": 2}],
        validate_only=False,
    )
    assert answer.error_code == 0
    await member.acquire(max_wait=100)
    await member.must_acknowledge((0, 1, [REJECT]))
    assert states.states[member.key()].batches == (StateRange(0, 1, ARCHIVED, 1),)
    assert letters(broker) == []


# --- failures -------------------------------------------------------------------------------------------------------


async def test_attempts_continue_and_hold_up_no_other_record() -> None:
    broker, states, member = await begun_with_topic(batches=3)
    gate = Gate(broker)
    gate.failures = 11
    assert await member.acquire(max_wait=100) == [(0, 2, 1)]
    await member.must_acknowledge((0, 2, [REJECT, RELEASE, ACCEPT]))
    assert await member.acquire(max_wait=100) == [(1, 1, 2)]
    await member.must_acknowledge((1, 1, [ACCEPT]))
    await broker.produce("t", b"more")
    assert await member.acquire(max_wait=100) == [(3, 3, 1)]
    await member.must_acknowledge((3, 3, [ACCEPT]))
    assert states.states[member.key()].start_offset == 0
    await asyncio.sleep(200)
    pauses = [round(later - earlier, 1) for earlier, later in zip(gate.tries, gate.tries[1:], strict=False)]
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]
    assert origins(letters(broker)) == [(0, 1)]
    counts = broker.broker.coordinators.dead_letters.counts.of("g")
    assert (counts.written, counts.requests, counts.failed_requests, counts.refused) == (1, 12, 11, 0)
    await broker.produce("t", b"last")
    assert await member.acquire(max_wait=100) == [(4, 4, 1)]
    await member.must_acknowledge((4, 4, [ACCEPT]))
    assert states.states[member.key()].start_offset == 4


async def test_records_that_the_topic_refuses_for_good_are_archived(caplog: pytest.LogCaptureFixture) -> None:
    broker, states, member = await begun_with_topic(batches=1, cleanup_policy="compact")
    await member.acquire(max_wait=100)
    await member.must_acknowledge((0, 0, [REJECT]))
    await asyncio.sleep(1)
    assert letters(broker) == []
    assert states.states[member.key()].batches == (StateRange(0, 0, ARCHIVED, 1),)
    assert "are archived without dead letters of g" in caplog.text


async def test_a_group_without_its_topic_any_more_archives_what_waits() -> None:
    broker, states, member = await begun_with_topic(batches=1)
    Gate(broker).failures = 1_000
    await member.acquire(max_wait=100)
    await member.must_acknowledge((0, 0, [REJECT]))
    await asyncio.sleep(60)
    assert states.states[member.key()].batches == (StateRange(0, 0, ARCHIVING, 1),)
    await set_group(broker, "g", **{NAME_KEY: ""})
    await asyncio.sleep(31)
    assert states.states[member.key()].batches == (StateRange(0, 0, ARCHIVED, 1),)


async def test_a_defect_is_logged_and_followed_by_another_attempt(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broker, _, member = await begun_with_topic(batches=1)
    topics = broker.broker.coordinators.dead_letters._topics
    real, tries = topics.find, []

    async def find(key: Any) -> Any:
        tries.append(key)
        if len(tries) == 1:
            raise ValueError("a defect")
        return await real(key)

    monkeypatch.setattr(topics, "find", find)
    await member.acquire(max_wait=100)
    await member.must_acknowledge((0, 0, [REJECT]))
    await asyncio.sleep(1)
    assert origins(letters(broker)) == [(0, 1)]
    assert "a defect" in caplog.text
    caplog.clear()


async def test_a_lock_that_ends_while_its_last_release_fails_makes_a_dead_letter() -> None:
    broker, states, member = await begun_with_topic(batches=1)
    await set_group(broker, "g", **{"share.delivery.count.limit": "2"})
    assert await member.acquire(max_wait=100) == [(0, 0, 1)]
    await member.must_acknowledge((0, 0, [RELEASE]))
    assert await member.acquire(max_wait=100) == [(0, 0, 2)]
    go = hold_produce(broker)
    states.go.clear()
    storing = asyncio.ensure_future(member.acknowledge((0, 0, [RELEASE])))
    await asyncio.sleep(31)
    states.fail_with = CoordinatorNotAvailable("gone")
    states.go.set()
    assert (await storing).responses[0].partitions[0].error_code == 15
    states.fail_with = None
    go.set()
    await asyncio.sleep(1)
    assert origins(letters(broker)) == [(0, 2)]
    assert states.states[member.key()].batches == (StateRange(0, 0, ARCHIVED, 2),)


# --- restarts and sessions ------------------------------------------------------------------------------------------


async def test_a_new_leader_writes_dead_letters_that_were_under_way() -> None:
    broker, states, _ = await begun_with_topic(batches=4)
    other = ShareConsumer(broker, group_id="h")
    await set_group(broker, "h", **{NAME_KEY: "dlq.t"})
    states.states[other.key()] = ShareState(
        0, 0, (StateRange(0, 1, ARCHIVING, 5), StateRange(2, 2, ARCHIVING, 1))
    )
    assert await other.acquire(max_wait=100) == [(3, 3, 1)]
    await asyncio.sleep(0.1)
    found = letters(broker)
    assert origins(found) == [(0, 5), (1, 5), (2, 1)]
    assert [(one.headers[5][1] or b"")[:12] for one in found] == [
        b"Offset deliv",
        b"Offset deliv",
        b"Offset rejec",
    ]
    assert all(one.delivery_state == ARCHIVED for one in states.states[other.key()].batches)


async def test_a_member_that_leaves_at_once_has_one_dead_letter_written() -> None:
    broker, states, member = await begun_with_topic(batches=1)
    go = hold_produce(broker)
    await member.acquire(max_wait=100)
    await member.must_acknowledge((0, 0, [REJECT]))
    assert (await member.leave()).error_code == 0
    leader = broker.broker.coordinators.share_leader
    await asyncio.sleep(1)
    assert len(leader) == 1
    go.set()
    await asyncio.sleep(1)
    assert len(leader) == 0
    assert states.states[member.key()].batches == (StateRange(0, 0, ARCHIVED, 1),)
    second = ShareConsumer(broker, member_id="n")
    assert await second.acquire(max_wait=100) == []
    assert origins(letters(broker)) == [(0, 1)]


async def test_a_broker_that_stops_leaves_them_to_the_next_leader() -> None:
    broker, states, member = await begun_with_topic(batches=1)
    hold_produce(broker)
    await member.acquire(max_wait=100)
    await member.must_acknowledge((0, 0, [REJECT]))
    await asyncio.sleep(1)
    await broker.stop()
    assert states.states[member.key()].batches == (StateRange(0, 0, ARCHIVING, 1),)


async def test_a_group_that_was_moved_in_the_meantime_is_loaded_again() -> None:
    broker, states, member = await begun_with_topic(batches=2)
    go = hold_produce(broker)
    assert await member.acquire(max_wait=100) == [(0, 1, 1)]
    await member.must_acknowledge((0, 1, [REJECT, ACCEPT]))
    await member.leave()
    again = ShareConsumer(broker, member_id="n")
    assert await again.acquire(max_wait=100) == []
    await again.leave()
    states.states[member.key()] = ShareState(1, 0)
    third = ShareConsumer(broker, member_id="o")
    first = await third.fetch(max_wait=10_000)
    assert first.responses[0].partitions[0].error_code == 6
    assert await third.acquire(max_wait=10_000) == [(0, 1, 1)]
    go.set()


async def test_the_next_member_waits_for_writes_behind_the_last_letter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker, states, member = await begun_with_topic(batches=2)
    go = hold_produce(broker)
    assert await member.acquire(max_wait=100) == [(0, 1, 1)]
    await member.must_acknowledge((0, 0, [REJECT]))
    archived, released = asyncio.Event(), asyncio.Event()
    gates, write = iter((archived, released)), states.write

    async def write_late(key: ShareKey, change: StateChange) -> None:
        if (gate := next(gates, None)) is not None:
            await gate.wait()
        await write(key, change)

    monkeypatch.setattr(states, "write", write_late)
    go.set()
    await asyncio.sleep(0.1)
    leaving = asyncio.create_task(member.leave())
    await asyncio.sleep(0.1)
    archived.set()
    await asyncio.sleep(0.1)
    assert len(broker.broker.coordinators.share_leader) == 0
    second = ShareConsumer(broker, member_id="n")
    acquiring = asyncio.create_task(second.acquire(max_wait=10_000))
    await asyncio.sleep(1)
    assert not acquiring.done()
    released.set()
    assert await acquiring == [(1, 1, 2)]
    assert (await leaving).error_code == 0
    await second.must_acknowledge((1, 1, [ACCEPT]))
    assert states.states[member.key()].batches == (StateRange(1, 1, 2, 2),)


async def test_letters_of_records_that_are_deleted_are_bounded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("odradek.broker.shares.dead_letters.DEAD_LETTERS_WAITING_MAX", 10)
    broker, _, member = await begun_with_topic(batches=0)
    hold_produce(broker)
    for first in range(0, 40, 4):
        await broker.produce("t", *[b"v"] * 4)
        assert await member.acquire(max_wait=100) == [(first, first + 3, 1)]
        await member.must_acknowledge((first, first + 3, [REJECT]))
        broker.broker.partitions.get("t", 0).require_leader().delete_records(first + 4)
        assert await member.acquire() == []
    (share_partition,) = broker.broker.coordinators.share_leader
    assert share_partition.dead_letters.under_way <= 12
    assert "have no dead letters of g" in caplog.text
