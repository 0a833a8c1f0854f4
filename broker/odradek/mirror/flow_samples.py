"""The metrics and the page `/mirror` of one flow, from its counters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from odradek.foundation import mirror_metrics as metrics
from odradek.foundation.ids import NO_TIMESTAMP_MS
from odradek.foundation.metric_kinds import Sample
from odradek.mirror.counters import FlowCounters, FlowError, PartitionCounters

_MS_PER_SECOND: Final = 1000


def flow_samples(counters: FlowCounters, *, is_running: bool) -> Iterator[Sample]:
    source = counters.source_alias
    now_ms = counters.wall_ms()
    for partition, of in counters.partitions.items():
        labels = (source, *partition)
        lag_records, lag_seconds = of.lag_records, _lag_seconds(of, now_ms)
        if lag_records is not None:
            yield metrics.MIRROR_LAG_RECORDS.sample(lag_records, *labels)
        if lag_seconds is not None:
            yield metrics.MIRROR_LAG_SECONDS.sample(lag_seconds, *labels)
        if of.last_timestamp_ms != NO_TIMESTAMP_MS:
            age_ms = max(0, now_ms - of.last_timestamp_ms)
            yield metrics.MIRROR_LAST_RECORD_AGE_SECONDS.sample(age_ms / _MS_PER_SECOND, *labels)
        yield metrics.MIRROR_RECORDS.sample(of.records, *labels)
        yield metrics.MIRROR_BYTES.sample(of.bytes, *labels)
        yield metrics.MIRROR_BATCHES.sample(of.batches, *labels)
        for reason, count in of.opened.items():
            yield metrics.MIRROR_BATCHES_OPENED.sample(count, *labels, reason)
        yield metrics.MIRROR_PARTITION_STOPPED.sample(of.stopped is not None, *labels)
    for (failed, kind), count in counters.errors.items():
        topic, number = ("", "") if failed is None else (failed.topic, failed.partition)
        yield metrics.MIRROR_ERRORS.sample(count, source, topic, number, kind)
    yield metrics.MIRROR_PARTITIONS.sample(len(counters.partitions), source)
    yield metrics.MIRROR_FLOW_RUNNING.sample(is_running, source)
    for outcome, count in counters.transactions.items():
        yield metrics.MIRROR_TRANSACTIONS.sample(count, source, outcome)
    yield metrics.MIRROR_FENCINGS.sample(counters.fencings, source)
    yield from _of_groups(counters, now_ms)


def _of_groups(counters: FlowCounters, now_ms: int) -> Iterator[Sample]:
    source = counters.source_alias
    yield metrics.MIRROR_GROUPS.sample(counters.groups, source)
    yield metrics.MIRROR_CHECKPOINTS.sample(counters.checkpoints, source)
    if counters.checkpointed_at_ms is not None:
        age_ms = max(0, now_ms - counters.checkpointed_at_ms)
        yield metrics.MIRROR_CHECKPOINT_AGE_SECONDS.sample(age_ms / _MS_PER_SECOND, source)
    yield metrics.MIRROR_GROUP_OFFSETS.sample(counters.group_offsets, source)
    yield metrics.MIRROR_OFFSET_SYNCS.sample(counters.offset_syncs, source)
    yield metrics.MIRROR_HEARTBEATS.sample(counters.heartbeats, source)


def flow_page(counters: FlowCounters, *, label: str, state: str) -> dict[str, object]:
    """Return the part of `/mirror` for one flow, as JSON. What is not known is null."""
    now_ms = counters.wall_ms()
    return {
        "flow": label,
        "source": counters.source_alias,
        "state": state,
        "partitions": [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "position": of.position,
                "end": of.end_offset,
                "lag": of.lag_records,
                "lag_seconds": _lag_seconds(of, now_ms),
                "records": of.records,
                "bytes": of.bytes,
                "batches": of.batches,
                "opened": dict(of.opened),
                "stopped": _error(of.stopped),
            }
            for partition, of in sorted(counters.partitions.items())
        ],
        "transactions": dict(counters.transactions),
        "fencings": counters.fencings,
        "groups": counters.groups,
        "checkpoints": counters.checkpoints,
        "checkpointed_at_ms": counters.checkpointed_at_ms,
        "last_error": _error(counters.last_error),
    }


def _lag_seconds(of: PartitionCounters, now_ms: int) -> float | None:
    lag_ms = of.lag_ms(now_ms)
    return None if lag_ms is None else lag_ms / _MS_PER_SECOND


def _error(error: FlowError | None) -> dict[str, object] | None:
    return None if error is None else error._asdict()
