"""What went wrong with transactions elsewhere, tried on a whole broker through the bytes of clients.

Each test names the bug. Those of single parts are tested beside their parts: decisions, markers, tokens, offsets.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from odradek.broker.transactions.marker_sender import MarkerSender
from odradek.wire.protocol.api import ApiKey
from odradek.wire.records.compression import Compression
from tests.broker.requests.test_transactional_writes import fetched, offset, run_story, settled, values
from tests.support.stories import told_by
from tests.support.transactional_producer import TransactionalProducer
from tests.support.whole_broker import WholeBroker


async def delayed_end(
    broker: WholeBroker, producer: TransactionalProducer, identity: dict[str, Any], *, commit: bool
) -> int:
    """An EndTxn of `identity` that arrives late; the error."""
    version = 5 if producer.version >= 2 else 4
    answer = await broker.ask(ApiKey.END_TXN, version, committed=commit, **identity)
    return int(answer.error_code)


@pytest.mark.parametrize("is_late_commit", [True, False])
@told_by(run_story)
async def test_a_late_end_does_not_end_the_next_transaction(
    broker: WholeBroker, is_late_commit: bool
) -> None:
    """KAFKA-17754, which Jepsen found: a lost write, an aborted read and a torn transaction from one late EndTxn."""
    producer = await TransactionalProducer(broker).begin()
    first = producer.identity
    assert await producer.produce("t", b"first") == 0
    assert await producer.end(commit=is_late_commit) == 0
    assert await producer.produce("t", b"second") == 0
    # While the second is open, the client's first request comes out of the network.
    assert await delayed_end(broker, producer, first, commit=is_late_commit) == 90
    await settled(broker)
    again = await broker.restart()
    producer.broker = again
    assert await delayed_end(again, producer, first, commit=is_late_commit) in (14, 16, 90)
    await again.ask(ApiKey.FIND_COORDINATOR, 4, key_type=1, coordinator_keys=["tx"])
    await settled(again)
    assert await delayed_end(again, producer, first, commit=is_late_commit) == 90
    expected = [b"first"] if is_late_commit else []
    assert values(await fetched(again)) == expected
    assert await producer.produce("t", b"third") == 0
    assert await producer.end(commit=True) == 0
    await settled(again)
    assert values(await fetched(again)) == [*expected, b"second", b"third"]
    assert await delayed_end(again, producer, first, commit=not is_late_commit) == 90
    broker.broker = again.broker


@told_by(run_story)
async def test_a_late_end_of_the_first_generation_ends_the_next_transaction(broker: WholeBroker) -> None:
    """KAFKA-17754 again: with version 1 both transactions have one epoch, and no broker can distinguish them."""
    producer = await TransactionalProducer(broker, version=1).begin()
    for value in (b"first", b"second"):
        await producer.add("t", 0)
        assert await producer.produce("t", value) == 0
        if value == b"first":
            assert await producer.end(commit=True) == 0
            await settled(broker)
    assert await delayed_end(broker, producer, producer.identity, commit=True) == 0
    await settled(broker)
    assert values(await fetched(broker)) == [b"first", b"second"]


@pytest.mark.parametrize("seconds", [0.05, 1.0])
@told_by(run_story)
async def test_a_slow_marker_does_not_end_the_transaction_that_begins_meanwhile(
    broker: WholeBroker, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """KAFKA-18575, KAFKA-18654: the first batch of a transaction raced the last marker."""
    exchange = MarkerSender._exchange

    async def slow(self: MarkerSender, broker_id: int, batch: Any) -> None:
        await asyncio.sleep(seconds)
        await exchange(self, broker_id, batch)

    monkeypatch.setattr(MarkerSender, "_exchange", slow)
    producer = await TransactionalProducer(broker).begin()
    for number in range(5):
        error = await producer.produce("t", b"%d" % number)
        while error == 51:
            # The client's own retry: the markers take longer than the broker repeats its question.
            producer.sequences.clear()
            error = await producer.produce("t", b"%d" % number)
        assert error == 0
        assert await producer.end(commit=number != 2) == 0
    await asyncio.sleep(2)
    answer = await fetched(broker)
    assert answer.last_stable_offset == answer.high_watermark == 10
    assert values(answer) == [b"0", b"1", b"3", b"4"]


@pytest.mark.thorough
@pytest.mark.parametrize("version", [1, 2])
@told_by(run_story)
async def test_a_batch_that_comes_again_in_its_transaction_is_there_once(
    broker: WholeBroker, version: int
) -> None:
    """redpanda#3039, redpanda#5355, KAFKA-14034: the answer was lost, and the retry was written again."""
    producer = await TransactionalProducer(broker, version=version).begin()
    if version == 1:
        await producer.add("t", 0)
    first = producer.produce_fields("t", 0, (b"first",))
    second = producer.produce_fields("t", 0, (b"second",))
    running = broker
    offsets: list[list[int]] = []
    for _ in range(3):
        found = []
        for asked in (first, second, first):
            answer = await running.ask(ApiKey.PRODUCE, producer.produce_version, **asked)
            (one,) = answer.responses[0].partition_responses
            assert one.error_code == 0
            found.append(int(one.base_offset))
        offsets.append(found)
        running = await running.restart()
    assert offsets == [[0, 1, 0]] * 3
    producer.broker = running
    await running.ask(ApiKey.FIND_COORDINATOR, 4, key_type=1, coordinator_keys=["tx"])
    await settled(running)
    assert await producer.end(commit=True) == 0
    await settled(running)
    assert values(await fetched(running)) == [b"first", b"second"]
    broker.broker = running.broker


@told_by(run_story)
async def test_two_ids_that_are_verified_at_once_keep_their_own_records(broker: WholeBroker) -> None:
    """KAFKA-15653: an answer of the coordinator was taken on another thread, with another request's buffer."""
    producers = [await TransactionalProducer(broker, f"tx-{number}").begin() for number in range(4)]
    for turn in range(10):
        sent = [
            producer.produce(
                "t",
                b"%s-%d" % (producer.name.encode(), turn) * 50,
                compression=list(Compression)[(turn + number) % len(Compression)],
            )
            for number, producer in enumerate(producers)
        ]
        assert await asyncio.gather(*sent) == [0] * len(producers)
        assert await asyncio.gather(*(one.end(commit=True) for one in producers)) == [0] * len(producers)
    await settled(broker)
    found = values(await fetched(broker))
    assert len(found) == 40
    for producer in producers:
        own = [b"%s-%d" % (producer.name.encode(), turn) * 50 for turn in range(10)]
        assert [one for one in found if one in own] == own


@told_by(run_story)
async def test_a_reader_at_the_last_stable_offset_gets_nothing(broker: WholeBroker) -> None:
    """redpanda#3036: off by one, the first unstable record was shown. redpanda#10671: so was all, until the replay."""
    whole = await TransactionalProducer(broker, "whole").begin()
    assert await whole.produce("t", b"committed") == 0
    assert await whole.end(commit=True) == 0
    await settled(broker)
    producer = await TransactionalProducer(broker).begin()
    assert await producer.produce("t", b"open", b"open") == 0
    running = broker
    for _ in range(2):
        for start in range(5):
            answer = await fetched(running, offset=start)
            assert answer.last_stable_offset == 2
            assert values(answer) == ([b"committed"] if start == 0 else [])
        assert not (await fetched(running, offset=2)).records
        running = await running.restart()
    broker.broker = running.broker


@pytest.mark.parametrize("version", [1, 2])
@told_by(run_story)
async def test_a_producer_past_its_timeout_writes_no_more(broker: WholeBroker, version: int) -> None:
    """redpanda#23131: a producer whose transaction had timed out was not fenced."""
    producer = await TransactionalProducer(broker, version=version).begin()
    if version == 1:
        await producer.add("t", 0)
    assert await producer.produce("t", b"late") == 0
    await asyncio.sleep(65)
    assert await producer.produce("t", b"later") == 47
    assert await producer.end(commit=True) == 90
    answer = await fetched(broker)
    assert (values(answer), answer.last_stable_offset) == ([], 2)
    assert broker.broker.partitions.get("t", 0).log.log_end_offset == 2, "the record and its marker"


@pytest.mark.thorough
@told_by(run_story)
async def test_offsets_alone_are_a_transaction(broker: WholeBroker) -> None:
    """nisshi-io/nisshi#716: a transaction with offsets and no records was dropped."""
    producer = await TransactionalProducer(broker).begin()
    await broker.ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g"])
    for number in range(3):
        errors = [51]
        while errors == [51]:
            errors = await producer.commit_offsets("g", ("t", 0, number))
            await asyncio.sleep(0.02)
        assert errors == [0]
        assert await producer.end(commit=True) == 0
        await settled(broker)
        assert await offset(broker) == (number, 0)


@told_by(run_story)
async def test_an_end_while_the_broker_stops_is_no_success(broker: WholeBroker) -> None:
    """ydb-platform/ydb#52731: EndTxn during the end of a broker got an empty success, and its batch was lost."""
    producer = await TransactionalProducer(broker).begin()
    assert await producer.produce("t", b"a") == 0
    identity = producer.identity
    broker.broker.coordinators.transactions.runtime.resign()
    assert await delayed_end(broker, producer, identity, commit=True) in (14, 15, 16)
    again = await broker.restart()
    producer.broker = again
    await again.ask(ApiKey.FIND_COORDINATOR, 4, key_type=1, coordinator_keys=["tx"])
    await settled(again)
    assert values(await fetched(again)) == []
    assert await producer.end(commit=True) == 0
    await settled(again)
    assert values(await fetched(again)) == [b"a"]
    broker.broker = again.broker
