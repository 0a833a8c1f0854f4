"""The metrics of share groups: what this broker leads, coordinates and writes for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from odradek.broker.process.broker_process import AnyBroker
from odradek.broker.shares.runs import RecordState
from odradek.broker.shares.share_counts import ACKNOWLEDGE_TYPE_NAMES, LOAD_BOUNDS_SECONDS
from odradek.foundation import share_metrics as metrics
from odradek.foundation.limits import SHARE_RUNS_PER_SCRAPE_MAX
from odradek.foundation.metrics import Sample

if TYPE_CHECKING:
    from odradek.broker.shares.dead_letter_writer import DeadLetterWriter
    from odradek.broker.shares.leader import ShareLeader


def share_samples(broker: AnyBroker) -> Iterator[Sample]:
    """Nothing of the parts that this broker has not used yet."""
    coordinators = broker.coordinators
    groups = coordinators.started_groups
    if groups is not None:
        yield metrics.SHARE_GROUP_REBALANCES.sample(groups.context.share_rebalances)
    if coordinators.started_share_leader is not None:
        yield from _leader_samples(coordinators.started_share_leader)
        yield from _partition_samples(coordinators.started_share_leader)
        yield from _dead_letter_samples(coordinators.started_share_leader, coordinators.started_dead_letters)
    if coordinators.started_share_states is not None:
        yield metrics.SHARE_STATE_REQUESTS.sample(coordinators.started_share_states.requests)
    states = coordinators.started_shares
    if states is not None:
        yield metrics.SHARE_STATE_WRITES.sample(states.writes)
        yield metrics.SHARE_STATE_PARTITIONS_REFUSED.sample(states.runtime.failed_partitions)


def _leader_samples(leader: ShareLeader) -> Iterator[Sample]:
    counts, sessions = leader.counts, leader.sessions
    for kind, name in ACKNOWLEDGE_TYPE_NAMES.items():
        yield metrics.SHARE_ACKNOWLEDGEMENTS.sample(counts.acknowledged[kind], name)
    yield metrics.SHARE_PARTITION_LOAD_SECONDS.distribution(
        LOAD_BOUNDS_SECONDS, counts.load_buckets, counts.load_seconds
    )
    yield metrics.SHARE_SESSIONS.sample(len(sessions))
    yield metrics.SHARE_SESSION_PARTITIONS.sample(sessions.partition_count)
    yield metrics.SHARE_SESSIONS_REFUSED.sample(sessions.refused)


def _partition_samples(leader: ShareLeader) -> Iterator[Sample]:
    runs_left = SHARE_RUNS_PER_SCRAPE_MAX
    under_way = 0
    for share_partition in leader:
        under_way += share_partition.dead_letters.under_way
        in_flight = share_partition.loaded
        if in_flight is None:
            continue
        labels = (share_partition.key.group_id, *share_partition.partition.topic_partition)
        yield metrics.IN_FLIGHT_MESSAGES.sample(in_flight.count, *labels)
        yield metrics.IN_FLIGHT_BATCHES.sample(len(in_flight.batches), *labels)
        yield metrics.LOCK_TIMEOUTS.sample(share_partition.locks_ended, *labels)
        left = share_partition.partition.high_watermark - in_flight.start_offset
        yield metrics.SHARE_LAG_MESSAGES.sample(max(left - in_flight.delivery_complete_count, 0), *labels)
        runs_left -= in_flight.run_count
        if runs_left >= 0:
            acquired = sum(len(run) for run in in_flight.runs() if run.state == RecordState.ACQUIRED)
            yield metrics.ACQUIRED_MESSAGES.sample(acquired, *labels)
    yield metrics.DEAD_LETTERS_UNDER_WAY.sample(under_way)


def _dead_letter_samples(leader: ShareLeader, writer: DeadLetterWriter | None) -> Iterator[Sample]:
    """From 0 on for each group that reads here: Prometheus sees no increase where a counter begins."""
    counted: set[str] = set()
    for group_id, counts in writer.counts if writer is not None else ():
        counted.add(group_id)
        yield metrics.DEAD_LETTERS_WRITTEN.sample(counts.written, group_id)
        yield metrics.DEAD_LETTERS_REFUSED.sample(counts.refused, group_id)
        yield metrics.DEAD_LETTER_REQUESTS.sample(counts.requests, group_id)
        yield metrics.DEAD_LETTER_FAILED_REQUESTS.sample(counts.failed_requests, group_id)
    for group_id in sorted({one.key.group_id for one in leader} - counted):
        yield metrics.DEAD_LETTERS_WRITTEN.sample(0, group_id)
        yield metrics.DEAD_LETTERS_REFUSED.sample(0, group_id)
        yield metrics.DEAD_LETTER_REQUESTS.sample(0, group_id)
        yield metrics.DEAD_LETTER_FAILED_REQUESTS.sample(0, group_id)
