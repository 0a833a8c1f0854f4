"""Produce: every version, every kind of acks, errors for each partition."""

import struct
from typing import Any

import pytest

from odradek.broker.requests.produce import handler as produce
from odradek.foundation.errors import InvalidRequest
from odradek.network.connection import Connection
from odradek.wire.protocol.api import ApiKey
from odradek.wire.records.batch import update_crc
from odradek.wire.records.compression import Compression
from tests.support.loop import run
from tests.support.whole_broker import WholeBroker, batch, decoded


class NotingConnection(Connection):
    """Notes that it was closed."""

    is_closed = False

    def close(self) -> None:
        self.is_closed = True


def topic_data(
    broker: WholeBroker, version: int, topic: str, *partitions: tuple[int, bytes | None]
) -> list[dict[str, Any]]:
    data = {"partition_data": [{"index": index, "records": records} for index, records in partitions]}
    if version >= 13:
        image = broker.broker.images.current.topics.get(topic)
        return [{"topic_id": None if image is None else image.id, **data}]
    return [{"name": topic, **data}]


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("acks", [1, -1])
async def test_every_version_appends_and_answers_the_offset(version: int, acks: int) -> None:
    broker = await WholeBroker.start()
    await broker.create_topic("t", partitions=2)
    for base_offset in (0, 2):
        data = topic_data(broker, version, "t", (1, batch([b"a", b"b"])))
        answer = await broker.ask(ApiKey.PRODUCE, version, acks=acks, timeout=1000, topic_data=data)
        (topic,) = answer.responses
        (partition,) = topic.partition_responses
        assert (partition.index, partition.error_code, partition.base_offset) == (1, 0, base_offset)
        assert (
            topic.topic_id == broker.broker.images.current.topics["t"].id
            if version >= 13
            else topic.name == "t"
        )
        if version >= 5:
            assert partition.log_start_offset == 0
    assert broker.broker.partitions.get("t", 1).high_watermark == 4


@pytest.mark.parametrize("version", [3, 8, 9, 13])
async def test_partitions_fail_for_themselves(version: int) -> None:
    broker = await WholeBroker.start()
    await broker.create_topic("t", partitions=2)
    damaged = bytearray(batch([b"a"]))
    damaged[-1] ^= 1
    partitions = ((0, batch([b"a"])), (1, bytes(damaged)), (9, batch([b"a"])), (0, None))
    answer = await broker.ask(
        ApiKey.PRODUCE,
        version,
        acks=1,
        timeout=1000,
        topic_data=topic_data(broker, version, "t", *partitions),
    )
    results = answer.responses[0].partition_responses
    assert [int(result.error_code) for result in results] == [0, 2, 3, 87]
    assert [result.base_offset for result in results] == [0, -1, -1, -1]
    if version >= 8:
        assert results[0].error_message is None
        assert "t-9" in results[2].error_message


def patched(records: bytes, position: int, form: str, value: int, *, crc: bool = True) -> bytes:
    """`records` with a field overwritten, and the checksum made right again unless `crc` is False."""
    changed = bytearray(records)
    struct.pack_into(form, changed, position, value)
    if crc:
        update_crc(changed)
    return bytes(changed)


GOOD = batch([b"a", b"b", b"c"])

# What was sent, and the error and log start offset that Kafka 4.1.1 answers.
REFUSALS: dict[str, tuple[bytes, int, int]] = {
    "truncated": (GOOD[:-3], 87, -1),
    "two batches": (GOOD + GOOD, 87, -1),
    "magic 1": (patched(GOOD, 16, ">b", 1, crc=False), 87, -1),
    "magic 3": (patched(GOOD, 16, ">b", 3, crc=False), 2, -1),
    "wrong checksum": (patched(GOOD, 70, ">B", 0xFF, crc=False), 2, -1),
    "length too large": (patched(GOOD, 8, ">i", len(GOOD), crc=False), 87, -1),
    "length negative": (patched(GOOD, 8, ">i", -1, crc=False), 2, -1),
    "a base offset": (patched(GOOD, 0, ">q", 5, crc=False), 87, 1),
    "a record too few": (patched(GOOD, 57, ">i", 2), 87, 1),
    "no records": (patched(GOOD, 57, ">i", 0), 87, 1),
    "a control batch": (patched(GOOD, 21, ">h", 0x20), 87, 1),
    "an unknown codec": (patched(GOOD, 21, ">h", 5), 76, 1),
    "too large": (batch([bytes(2_000_000)]), 10, -1),
}


@pytest.mark.parametrize("case", REFUSALS)
@pytest.mark.parametrize("version", [8, 12, 13])
async def test_a_refusal_has_the_error_and_the_log_start_offset(version: int, case: str) -> None:
    broker = await WholeBroker.start()
    await broker.create_topic("t")
    await broker.produce("t", b"first")
    broker.broker.partitions.get("t", 0).require_leader().delete_records(1)
    records, error, log_start = REFUSALS[case]
    data = topic_data(broker, version, "t", (0, records))
    answer = await broker.ask(ApiKey.PRODUCE, version, acks=-1, timeout=1000, topic_data=data)
    (answered,) = answer.responses[0].partition_responses
    assert (answered.error_code, answered.log_start_offset, answered.base_offset) == (
        error,
        log_start,
        -1,
    )
    assert answered.error_message
    assert broker.broker.partitions.get("t", 0).log.log_end_offset == 1


@pytest.mark.parametrize(("version", "error"), [(3, 76), (6, 76), (7, 0), (13, 0)])
async def test_zstd_is_not_taken_from_clients_that_are_older_than_it(version: int, error: int) -> None:
    broker = await WholeBroker.start()
    await broker.create_topic("t")
    data = topic_data(broker, version, "t", (0, batch([b"a"], compression=Compression.ZSTD)))
    answer = await broker.ask(ApiKey.PRODUCE, version, acks=-1, timeout=1000, topic_data=data)
    assert answer.responses[0].partition_responses[0].error_code == error


async def test_the_records_that_are_refused_are_named() -> None:
    broker = await WholeBroker.start()
    await broker.create_topic("t", cleanup_policy="compact")
    data = topic_data(broker, 12, "t", (0, batch([b"a", b"b"])))
    answer = await broker.ask(ApiKey.PRODUCE, 12, acks=-1, timeout=1000, topic_data=data)
    (answered,) = answer.responses[0].partition_responses
    assert (answered.error_code, answered.log_start_offset) == (87, 0)
    assert [one.batch_index for one in answered.record_errors] == [0, 1]
    assert all(one.batch_index_error_message for one in answered.record_errors)


@pytest.mark.parametrize("version", [9, 12, 13])
@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_a_request_for_one_partition_gets_the_same_answer_on_both_roads(
    version: int, acks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = bytearray(batch([b"a"]))
    damaged[-1] ^= 1
    cases = [("t", 0, batch([b"a", b"b"])), ("t", 0, bytes(damaged)), ("t", 0, b""), ("t", 0, None)]
    cases += [("t", 9, batch([b"a"])), ("t", -1, batch([b"a"])), ("nowhere", 0, batch([b"a"]))]
    cases += [
        ("t", 0, b"x"),
        ("t", 0, batch([b"a"]) * 2),
        ("t", 0, batch([b"c"], base_sequence=7, producer_id=3)),
    ]
    # Of a transaction, in a request without a transactional id: that is refused before a topic is looked for.
    transactional = batch([b"a"], base_sequence=0, producer_id=3, is_transactional=True)
    cases += [("t", 0, transactional), ("nowhere", 0, transactional), ("t", 0, transactional[:-1])]

    async def answers() -> list[tuple[Any, bool]]:
        broker = await WholeBroker.start()
        await broker.create_topic("t")
        # Topics' ids are random, and are part of the answers.
        topic_id = broker.broker.images.current.topics["t"].id.bytes
        found = []
        for topic, index, records in cases:
            connection = NotingConnection(id=2, listener_name="PLAINTEXT")
            data = topic_data(broker, version, topic, (index, records))
            answer = broker.send(ApiKey.PRODUCE, version, connection, acks=acks, timeout=1, topic_data=data)
            assert (answer is None) == (acks == 0)
            found.append((answer and answer.replace(topic_id, bytes(16)), connection.is_closed))
        await broker.broker.stop()
        return found

    short = run(answers())
    monkeypatch.setattr(produce, "parse_one_partition", lambda *_: None)
    assert run(answers()) == short
    if acks == 0:
        assert [is_closed for _, is_closed in short] == [False, *[True] * 12]


async def test_log_append_time_is_answered() -> None:
    broker = await WholeBroker.start()
    await broker.create_topic("t", message_timestamp_type="LogAppendTime")
    result = await broker.produce("t", b"a")
    assert result.log_append_time is not None
    (partition,) = [broker.broker.partitions.get("t", 0)]
    found = partition.log.offset_of_max_timestamp()
    assert found is not None
    assert round(result.log_append_time.timestamp() * 1000) == found.timestamp_ms


@pytest.mark.parametrize("acks", [2, -2, 100])
async def test_other_acks_are_refused(acks: int) -> None:
    broker = await WholeBroker.start()
    await broker.create_topic("t")
    result = await broker.produce("t", b"a", acks=acks)
    assert result.error_code == 21
    assert broker.broker.partitions.get("t", 0).high_watermark == 0


async def test_acks_0_gets_no_answer_and_a_failure_closes_the_connection() -> None:
    broker = await WholeBroker.start()
    await broker.create_topic("t")
    for topic, is_closed in (("t", False), ("nowhere", True)):
        connection = NotingConnection(id=2, listener_name="PLAINTEXT")
        data = topic_data(broker, 9, topic, (0, batch([b"a"])))
        sent = broker.send(ApiKey.PRODUCE, 9, connection, acks=0, timeout=1000, topic_data=data)
        assert sent is None
        assert connection.is_closed is is_closed
    assert broker.broker.partitions.get("t", 0).high_watermark == 1


async def test_a_duplicate_is_answered_with_its_old_offset_and_a_gap_is_refused() -> None:
    broker = await WholeBroker.start()
    await broker.create_topic("t")
    producer = {"producer_id": 5, "producer_epoch": 0}
    assert (await broker.produce("t", b"a", base_sequence=0, **producer)).base_offset == 0
    assert (await broker.produce("t", b"b", base_sequence=1, **producer)).base_offset == 1
    assert (await broker.produce("t", b"a", base_sequence=0, **producer)).base_offset == 0
    assert (await broker.produce("t", b"d", base_sequence=3, **producer)).error_code == 45
    assert broker.broker.partitions.get("t", 0).high_watermark == 2


@pytest.mark.parametrize("version", [3, 9])
async def test_only_the_admin_client_writes_to_internal_topics(version: int) -> None:
    broker = await WholeBroker.start()
    await broker.broker.controller.ensure_topic("__consumer_offsets")
    answer = await broker.produce("__consumer_offsets", b"noise", version=version)
    assert (answer.error_code, answer.base_offset) == (17, -1)
    assert broker.broker.partitions.get("__consumer_offsets", 0).log.log_end_offset == 0
    broker.client_id = "__admin_client"
    answer = await broker.produce("__consumer_offsets", b"noise", version=version)
    assert answer.error_code == 87  # it came as far as the log, which asks for keys


async def test_min_insync_replicas_counts_at_most_the_replicas_there_are() -> None:
    broker = await WholeBroker.start()
    await broker.create_topic("t", min_insync_replicas="2")
    assert (await broker.produce("t", b"a", acks=-1)).error_code == 0
    partition = broker.broker.partitions.get("t", 0)
    partition.replica.replicas, partition.replica.in_sync_replicas = (1, 2), (1,)
    assert (await broker.produce("t", b"a", acks=-1)).error_code == 19
    assert (await broker.produce("t", b"a", acks=1)).error_code == 0


async def test_a_full_disk_refuses_writes_and_serves_reads() -> None:
    broker = await WholeBroker.start()
    await broker.create_topic("t")
    await broker.produce("t", b"a")
    broker.disk.capacity_bytes = 0
    assert (await broker.produce("t", b"b")).error_code == 56
    answer = await broker.ask(ApiKey.FETCH, 11, **broker.fetch_fields(("t", 0, 0)))
    assert answer.responses[0].partitions[0].records
    broker.disk.capacity_bytes = None
    assert (await broker.produce("t", b"b")).base_offset == 1


@pytest.mark.parametrize("version", [3, 9, 13])
async def test_every_truncated_request_is_refused(version: int) -> None:
    broker = await WholeBroker.start()
    await broker.create_topic("t")
    data = topic_data(broker, version, "t", (0, batch([b"a"])))
    from odradek.wire.protocol import codec, messages

    whole = codec.encode_request(
        ApiKey.PRODUCE,
        version,
        7,
        "test",
        messages.request(ApiKey.PRODUCE, version, acks=1, timeout=1000, topic_data=data),
    )[4:]
    for size in range(len(whole)):
        with pytest.raises(InvalidRequest):
            broker.dispatcher(broker.connection, memoryview(bytearray(whole[:size])))
    assert broker.broker.counters.malformed == len(whole)
    assert broker.broker.partitions.get("t", 0).high_watermark == 0
    answer = broker.dispatcher(broker.connection, memoryview(bytearray(whole)))
    assert decoded(ApiKey.PRODUCE, version, answer).responses[0].partition_responses[0].base_offset == 0
