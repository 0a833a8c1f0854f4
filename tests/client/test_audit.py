"""The audit of a producer against a running broker: its reports are what a reader of the topic counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TypeVar

import pytest

from odradek.client.admin.admin import Admin
from odradek.client.audit.counts import Counts, digest, window_start
from odradek.client.audit.reports import CountsReport, SessionReport, read_report
from odradek.client.client import Client
from odradek.client.consumer.blocks import ConsumerRecord
from odradek.client.consumer.consumer import PartitionConsumer
from odradek.client.producer.audit import Audit
from odradek.client.producer.producer import Producer
from odradek.foundation.errors import InvalidRequest
from odradek.foundation.ids import TopicPartition
from tests.client.support import run, with_client

pytestmark = pytest.mark.integration

T = TypeVar("T")
WINDOW_MS = 1000
HOUR_MS = 3_600_000
# An audit topic has four partitions: the chance that all sessions are in one is 4**-59.
SESSIONS_MAX = 60


async def committed(client: Client, topic: str) -> list[ConsumerRecord]:
    """The committed records of a topic, by partition and offset."""
    keys = (await client.topics((topic,))).partitions(topic)
    ends = await Admin(client).logs.offsets_at(keys, -1, read_committed=True)
    starts = await Admin(client).logs.offsets_at(keys, -2)
    seen: list[ConsumerRecord] = []
    async with PartitionConsumer(client, is_read_committed=True) as consumer:
        consumer.assign(starts)
        while any(consumer.position(key) < ends[key] for key in keys):
            seen += await consumer.poll(timeout_ms=500)
    return sorted(seen, key=lambda one: (one.partition, one.offset))


async def reported(client: Client, audit: Audit) -> tuple[dict[bytes, CountsReport], list[SessionReport]]:
    """The newest counts by key, and the heartbeats of this session in order. All are in one partition."""
    found = [
        one
        for one in await committed(client, audit.audit_topic)
        if audit.session.encode() in (one.key or b"")
    ]
    assert len({one.partition for one in found}) <= 1
    counts, heartbeats = {}, []
    for one in found:
        assert one.key is not None and one.value is not None
        report = read_report(one.value)
        assert report.key() == one.key and report.value() == one.value
        if isinstance(report, SessionReport):
            heartbeats.append(report)
        else:
            counts[one.key] = report
    return counts, heartbeats


def by_window(records: Iterable[ConsumerRecord]) -> dict[tuple[int, int], Counts]:
    """What a reader counts for each partition and window."""
    found: dict[tuple[int, int], Counts] = defaultdict(Counts)
    for one in records:
        found[one.partition, window_start(one.timestamp_ms, WINDOW_MS)].add(
            len(one.key or b"") + len(one.value or b""),
            digest(one.timestamp_ms, one.key, one.value, one.headers),
            one.offset,
        )
    return found


def summed(reports: Iterable[CountsReport]) -> dict[tuple[int, int], Counts]:
    """The reports of all parts, without what only the producer knows."""
    found: dict[tuple[int, int], Counts] = defaultdict(Counts)
    for one in reports:
        found[one.partition, one.window_start_ms].merge(one.counts)
    for counts in found.values():
        counts.late = 0
    return found


@with_client
async def test_reports_are_what_a_reader_counts(client: Client, unique: str) -> None:
    await Admin(client).topics.create(unique, partitions=2)
    audit = Audit(
        [unique], window_ms=WINDOW_MS, interval_ms=HOUR_MS, lease_ms=HOUR_MS, low_time=lambda: 5_000
    )
    async with Producer(client, audit=audit, compression="lz4") as producer:
        for number in range(500):
            await producer.send(
                unique,
                None if number % 7 == 0 else b"value %d" % number,
                key=None if number % 5 == 0 else b"key %d" % number,
                headers=[("n", b"%d" % number), ("nothing", None)] if number % 3 else (),
                partition=number % 2,
                timestamp_ms=5_000 + number * 10,
            )
        await producer.flush()
        await audit.publish()
        counts, heartbeats = await reported(client, audit)
        assert summed(counts.values()) == by_window(await committed(client, unique))
        assert (heartbeats[-1].count, heartbeats[-1].is_closed, heartbeats[-1].topics) == (
            500,
            False,
            (unique,),
        )
        # The same records again: counts are cumulative, so the newest message of a key has all.
        await producer.send_many(unique, [b"more"] * 100, partition=0)
        await producer.send(unique, b"too late", partition=0, timestamp_ms=4_999)
    counts, heartbeats = await reported(client, audit)
    assert summed(counts.values()) == by_window(await committed(client, unique))
    assert sum(one.counts.late for one in counts.values()) == 1
    assert (heartbeats[-1].count, heartbeats[-1].is_closed) == (601, True)


@with_client
async def test_a_transaction_has_its_counts_in_it(client: Client, unique: str) -> None:
    await Admin(client).topics.create(unique, partitions=1)
    audit = Audit(window_ms=WINDOW_MS, interval_ms=HOUR_MS, lease_ms=HOUR_MS)
    async with Producer(client, transactional_id=unique, audit=audit) as producer:
        async with producer.transaction():
            await producer.send(unique, b"one")
            await producer.send(unique, b"two")
        counts, _ = await reported(client, audit)
        assert sum(one.counts.count for one in counts.values()) == 2
        await producer.begin_transaction()
        await producer.send_and_wait(unique, b"aborted")
        before = audit._ledger.low_time_ms
        await audit.publish()
        assert audit._ledger.low_time_ms == before, "an open transaction may hold older records"
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send(unique, b"three")
        with pytest.raises(InvalidRequest, match="ends its transactions itself"):
            await producer.begin_transaction()
            await producer.prepare_transaction()
    counts, heartbeats = await reported(client, audit)
    assert summed(counts.values()) == by_window(await committed(client, unique))
    assert (heartbeats[-1].count, heartbeats[-1].is_closed) == (3, True)
    assert heartbeats[-1].low_time_ms > before


def test_what_cannot_be_audited_is_refused(
    bootstrap: str, unique: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(client: Client) -> None:
        with pytest.raises(InvalidRequest, match="acks 0 has none"):
            Producer(client, acks=0, is_idempotent=False, audit=Audit())
        with pytest.raises(InvalidRequest, match="have to be above 0"):
            Audit(interval_ms=0)
        configs = {"message.timestamp.type": "LogAppendTime"}
        await Admin(client).topics.create(unique, partitions=1, configs=configs)
        audit = Audit([unique], interval_ms=HOUR_MS, lease_ms=HOUR_MS)
        async with Producer(client, audit=audit) as producer:
            with pytest.raises(InvalidRequest, match="belongs to one producer"):
                Producer(client, audit=audit)
            await producer.send_and_wait(unique, b"stamped by the broker")
        counts, heartbeats = await reported(client, audit)
        assert not counts and heartbeats[-1].topics == () and audit.refused == {unique}

    run(bootstrap, work)
    assert "LogAppendTime" in caplog.text


def test_a_session_keeps_its_partition(bootstrap: str, unique: str) -> None:
    async def work(client: Client) -> set[int]:
        found: set[int] = set()
        for number in range(SESSIONS_MAX):
            if len(found) > 1:
                break
            audit = Audit([unique], producer=f"p{number}", audit_topic=f"audit-{unique}")
            async with Producer(client, audit=audit):
                pass
            keys: list[TopicPartition] = [
                TopicPartition(one.topic, one.partition) for one in await committed(client, audit.audit_topic)
            ]
            found |= {one.partition for one in keys}
        return found

    assert len(run(bootstrap, work)) > 1, "sessions share the partitions"
