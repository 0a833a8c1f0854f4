"""The metrics of a broker: a scrape of /metrics reads the counts of its parts."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Iterator
from heapq import nlargest
from typing import TYPE_CHECKING, Any, Final

from odradek.broker.process.broker_process import AnyBroker
from odradek.broker.process.trace_watch import SpanExport
from odradek.broker.quotas.keys import QuotaKey
from odradek.broker.quotas.meters import Meters
from odradek.broker.replication.partition import Partition
from odradek.broker.requests.counters import LATENCY_BOUNDS_SECONDS, RequestCounters
from odradek.foundation import metrics, telemetry_metrics
from odradek.foundation.limits import (
    LAG_LOOKUPS_PER_SCRAPE_MAX,
    LAG_TIMES_REMEMBERED_MAX,
    QUOTA_CLIENTS_PER_SCRAPE_MAX,
)
from odradek.foundation.metrics import MetricsRegistry, Sample
from odradek.foundation.version import __version__
from odradek.server.http.record_times import base_timestamp_ms, header_slice
from odradek.server.http.security_metrics import security_samples
from odradek.server.http.share_metrics import share_samples
from odradek.wire.protocol.api import ApiKey
from odradek.wire.records.batch import HEADER_BYTES

if TYPE_CHECKING:
    from odradek.broker.telemetry.client_telemetry import ClientTelemetry

_MS_PER_SECOND: Final = 1000

# What Kafka allows a coordinator beyond the longest timeout of a transaction before the transaction counts as late.
LATE_TRANSACTION_MS: Final = 5 * 60 * _MS_PER_SECOND


def quota_samples(broker: AnyBroker) -> Iterator[Sample]:
    """The metrics of client quotas: which clients were held up, how often, and for how long.

    Nothing while no client has had a quota, and no rate of connections was bounded.
    """
    yield from _quotas_of_clients(broker)
    yield from _rates_of_connections(broker)


def _rates_of_connections(broker: AnyBroker) -> Iterator[Sample]:
    rates = broker.connection_watch.rates
    if rates is None:
        return
    yield Sample(metrics.QUOTA_THROTTLES, (QuotaKey.CONNECTION,), rates.refused)
    yield Sample(metrics.QUOTA_THROTTLE_SECONDS, (QuotaKey.CONNECTION,), rates.refused_ms / _MS_PER_SECOND)
    longest = nlargest(
        QUOTA_CLIENTS_PER_SCRAPE_MAX, rates.by_address.items(), key=lambda named: named[1].held_ms
    )
    for ip, pace in longest:
        if pace.held:
            yield Sample(metrics.QUOTA_IP_THROTTLE_SECONDS, (ip,), pace.held_ms / _MS_PER_SECOND)
    for name, pace in rates.listeners.items():
        if pace.held:
            yield Sample(metrics.ACCEPT_THROTTLES, (name,), pace.held)
            yield Sample(metrics.ACCEPT_THROTTLE_SECONDS, (name,), pace.held_ms / _MS_PER_SECOND)


def _quotas_of_clients(broker: AnyBroker) -> Iterator[Sample]:
    kinds: dict[QuotaKey, Meters[Any]] = {}
    throttling = broker.quota_watch.throttling
    if throttling is not None:
        kinds |= {
            QuotaKey.PRODUCE: throttling.produce,
            QuotaKey.FETCH: throttling.fetch,
            QuotaKey.REQUEST: throttling.request,
        }
    mutations = broker.mutations
    if mutations is not None and mutations.meters is not None:
        kinds[QuotaKey.CONTROLLER_MUTATION] = mutations.meters
    for key, meters in kinds.items():
        yield Sample(metrics.QUOTA_THROTTLES, (key,), meters.throttled)
        yield Sample(metrics.QUOTA_THROTTLE_SECONDS, (key,), meters.throttled_ms / _MS_PER_SECOND)
        # Clients choose their ids, so not every one of them gets a series.
        longest = nlargest(
            QUOTA_CLIENTS_PER_SCRAPE_MAX, meters.meters, key=lambda meter: int(meter.throttled_ms)
        )
        for meter in longest:
            if meter.throttled_ms:
                yield Sample(
                    metrics.QUOTA_CLIENT_THROTTLE_SECONDS,
                    (key, *meter.share),
                    meter.throttled_ms / _MS_PER_SECOND,
                )


def register(broker: AnyBroker, registry: MetricsRegistry) -> None:
    """Register all metrics of `broker`. They are absent while it is still starting."""
    ages = LagAges(broker.clock.wall_ms)
    register_requests(broker.counters, broker.span_export, registry)
    # A start may scan logs for minutes: these metrics show its progress.
    registry.register(lambda: _recovery(broker))
    serving = (
        _waiting,
        _connections,
        _topics,
        _logs,
        _open_transactions,
        _directories,
        _compaction,
        _cluster,
        _groups,
        _transactional_ids,
        quota_samples,
        share_samples,
        _client_metrics,
        lambda serving: security_samples(serving.secured, serving.listeners),
    )
    for source in serving:
        registry.register(_once_serving(broker, source))
    registry.register(_once_serving(broker, lambda serving: _lag(serving, ages)))


def _once_serving(
    broker: AnyBroker, source: Callable[[AnyBroker], Iterator[Sample]]
) -> Callable[[], Iterator[Sample]]:
    return lambda: source(broker) if broker.is_serving else iter(())


def register_requests(counters: RequestCounters, export: SpanExport, registry: MetricsRegistry) -> None:
    """Register what brokers and controllers have: the version, the process, the requests."""
    registry.register(build_samples)
    registry.register(metrics.process_samples)
    registry.register(lambda: _requests(counters))
    registry.register(lambda: _traces(export))


def build_samples() -> Iterator[Sample]:
    """The version of this process."""
    yield metrics.BUILD_INFO.sample(1, __version__, platform.python_version())


def _requests(all_counters: RequestCounters) -> Iterator[Sample]:
    for api_key, counters in enumerate(all_counters.by_api):
        if not counters.requests and not counters.failures:
            continue
        api = ApiKey(api_key).name
        yield metrics.REQUESTS.sample(counters.requests, api)
        yield metrics.REQUEST_FAILURES.sample(counters.failures, api)
        yield metrics.LONG_TURNS.sample(counters.long_turns, api)
        yield metrics.SLOW_REQUESTS.sample(counters.slow, api)
        yield metrics.REQUEST_BYTES.sample(counters.request_bytes, api)
        yield metrics.RESPONSE_BYTES.sample(counters.response_bytes, api)
        yield metrics.REQUEST_SECONDS.distribution(
            LATENCY_BOUNDS_SECONDS, counters.buckets, counters.seconds, api
        )
    yield metrics.MALFORMED_REQUESTS.sample(all_counters.malformed)
    yield metrics.DENIED_OPERATIONS.sample(all_counters.denied)
    yield metrics.SLOW_REQUESTS_NOT_LOGGED.sample(all_counters.slow_not_logged)


def _traces(export: SpanExport) -> Iterator[Sample]:
    if export.spans is not None:
        yield telemetry_metrics.TRACE_SPANS.sample(export.spans.ended, "ended")
        yield telemetry_metrics.TRACE_SPANS.sample(export.spans.sent, "sent")
        yield telemetry_metrics.TRACE_SPANS.sample(export.spans.failed, "refused")


def _waiting(broker: AnyBroker) -> Iterator[Sample]:
    yield metrics.WAITING_REQUESTS.sample(len(broker.purgatory), "fetch")
    yield metrics.WAITING_REQUESTS.sample(len(broker.partitions.acknowledgements), "produce")
    yield metrics.FETCH_SESSIONS.sample(len(broker.parts.fetch.fetch_sessions))
    yield metrics.FETCH_SESSION_EVICTIONS.sample(broker.parts.fetch.fetch_sessions.evictions)


def _connections(broker: AnyBroker) -> Iterator[Sample]:
    for listener in broker.listeners:
        _, bytes_in, bytes_out = listener.totals()
        yield metrics.CONNECTIONS.sample(len(listener.connections), listener.name)
        yield metrics.CONNECTIONS_OPENED.sample(listener.accepted, listener.name)
        yield metrics.RECEIVED_BYTES.sample(bytes_in, listener.name)
        yield metrics.SENT_BYTES.sample(bytes_out, listener.name)
    # All listeners share one bound.
    yield metrics.CONNECTIONS_REFUSED.sample(broker.admission.refused, "all")


def _topics(broker: AnyBroker) -> Iterator[Sample]:
    totals: dict[str, list[int]] = {}
    for partition in broker.partitions:
        row = totals.setdefault(partition.topic_partition.topic, [0, 0, 0, 0, 0])
        row[0] += partition.replica.bytes_in
        row[1] += partition.replica.records_in
        row[2] += partition.replica.batches_in
        row[3] += partition.replica.bytes_out
        row[4] += partition.replica.append_failures
    for topic, row in totals.items():
        yield metrics.TOPIC_BYTES_IN.sample(row[0], topic)
        yield metrics.TOPIC_RECORDS_IN.sample(row[1], topic)
        yield metrics.TOPIC_BATCHES_IN.sample(row[2], topic)
        yield metrics.TOPIC_BYTES_OUT.sample(row[3], topic)
        yield metrics.TOPIC_APPEND_FAILURES.sample(row[4], topic)


def _logs(broker: AnyBroker) -> Iterator[Sample]:
    offline = 0
    for partition in broker.partitions:
        if partition.gone is not None:
            offline += 1
            continue
        log = partition.log
        labels = partition.topic_partition
        yield metrics.LOG_START_OFFSET.sample(log.log_start_offset, *labels)
        yield metrics.LOG_END_OFFSET.sample(log.log_end_offset, *labels)
        yield metrics.HIGH_WATERMARK.sample(partition.high_watermark, *labels)
        yield metrics.LOG_SIZE_BYTES.sample(log.size_bytes, *labels)
        yield metrics.LOG_SEGMENTS.sample(len(log.segments.all), *labels)
    yield metrics.PARTITIONS_OFFLINE.sample(offline)
    yield metrics.LOG_FLUSHES.sample(broker.flusher.flushes)
    yield metrics.LOG_FLUSH_SECONDS.sample(broker.flusher.flush_seconds)


def _open_transactions(broker: AnyBroker) -> Iterator[Sample]:
    now_ms = broker.clock.wall_ms()
    late_after_ms = broker.dynamic_settings.current.transaction_max_timeout_ms + LATE_TRANSACTION_MS
    count = late = 0
    for partition in broker.partitions:
        if partition.gone is not None:
            continue
        labels = partition.topic_partition
        transactions = partition.log.producers.transactions
        yield metrics.LAST_STABLE_OFFSET_LAG.sample(
            partition.high_watermark - partition.last_stable_offset, *labels
        )
        oldest = transactions.oldest
        if oldest is not None:
            count += len(transactions)
            age_ms = max(0, now_ms - oldest.started_ms)
            late += age_ms > late_after_ms
            yield metrics.OLDEST_TRANSACTION_SECONDS.sample(
                age_ms / _MS_PER_SECOND, *labels, oldest.producer_id
            )
    yield metrics.OPEN_TRANSACTIONS.sample(count)
    yield metrics.PARTITIONS_WITH_LATE_TRANSACTIONS.sample(late)
    verifier = broker.coordinators.started_verifier
    if verifier is not None:
        yield metrics.TRANSACTION_VERIFICATIONS.sample(verifier.questions)
        yield metrics.TRANSACTION_VERIFICATION_REQUESTS.sample(verifier.requests)


def _recovery(broker: AnyBroker) -> Iterator[Sample]:
    progress = broker.load_progress
    yield metrics.LOGS_TO_OPEN.sample(progress.logs - progress.logs_opened)
    yield metrics.LOG_RECOVERY_SCANNED_BYTES.sample(progress.scanned_bytes)
    yield metrics.LOG_RECOVERY_CUT_BYTES.sample(progress.truncated_bytes)


def _directories(broker: AnyBroker) -> Iterator[Sample]:
    for directory in broker.log_manager.describe():
        yield metrics.LOG_DIRECTORY_ONLINE.sample(int(directory.failure is None), directory.path)
        if directory.failure is not None:
            continue
        yield metrics.LOG_DIRECTORY_FULL.sample(int(directory.is_full), directory.path)
        yield metrics.LOG_DIRECTORY_FREE_BYTES.sample(directory.usable_bytes, directory.path)
        yield metrics.LOG_DIRECTORY_TOTAL_BYTES.sample(directory.total_bytes, directory.path)


def _compaction(broker: AnyBroker) -> Iterator[Sample]:
    cleaner = broker.cleaner
    uncleanable = [log for log, _ in cleaner.uncleanable.values()]
    yield metrics.UNCLEANABLE_PARTITIONS.sample(len(uncleanable))
    yield metrics.UNCLEANABLE_BYTES.sample(sum(log.size_bytes for log in uncleanable))
    yield metrics.CLEANER_MAX_DIRTY_RATIO.sample(cleaner.dirty_ratio_max)
    yield metrics.CLEANER_SECONDS_SINCE_LOOK.sample(cleaner.seconds_since_look)
    totals = cleaner.totals
    yield metrics.CLEANER_ROUNDS.sample(totals.rounds)
    yield metrics.CLEANER_READ_BYTES.sample(totals.bytes_read)
    yield metrics.CLEANER_WRITTEN_BYTES.sample(totals.bytes_written)
    yield metrics.CLEANER_SAVED_BYTES.sample(totals.bytes_saved)
    yield metrics.CLEANER_RECORDS_KEPT.sample(totals.records_kept)
    yield metrics.CLEANER_RECORDS_REMOVED.sample(totals.records_removed)
    yield metrics.CLEANER_MAP_FILL_RATIO.sample(totals.map_fill_ratio)


def _cluster(broker: AnyBroker) -> Iterator[Sample]:
    image = broker.images.current
    yield metrics.BROKERS.sample(len(image.brokers))
    yield metrics.TOPICS.sample(len(image.topics))
    yield metrics.PARTITIONS.sample(sum(len(topic.partitions) for topic in image.topics.values()))
    yield metrics.IS_CONTROLLER.sample(int(broker.is_controller))


def _groups(broker: AnyBroker) -> Iterator[Sample]:
    kinds: Counter[tuple[str, str]] = Counter()
    coordinator = broker.coordinators.started_groups
    if coordinator is None:
        return
    for shard in coordinator.runtime.list_loaded_shards():
        for group_id, group in shard.machine.groups.items():
            kinds[group.kind, group.state_name] += 1
            yield metrics.GROUP_MEMBERS.sample(len(group.members), group_id)
    for (protocol, state), count in kinds.items():
        yield metrics.GROUPS.sample(count, protocol, state)
    yield metrics.GROUP_REBALANCES.sample(coordinator.context.rebalances)
    yield metrics.STREAMS_GROUP_REBALANCES.sample(coordinator.context.streams_rebalances)
    yield metrics.GROUP_OFFSET_COMMITS.sample(coordinator.context.commits)
    yield metrics.GROUP_PARTITIONS_REFUSED.sample(coordinator.runtime.failed_partitions)


def _transactional_ids(broker: AnyBroker) -> Iterator[Sample]:
    coordinator = broker.coordinators.started_transactions
    if coordinator is None:
        return
    for state, count in coordinator.listing.counts().items():
        yield metrics.TRANSACTIONAL_IDS.sample(count, state)
    for outcome, count in coordinator.completed.items():
        yield metrics.TRANSACTIONS_COMPLETED.sample(count, outcome)
    yield metrics.TRANSACTIONS_TIMED_OUT.sample(coordinator.sweeps.timed_out)
    yield metrics.TRANSACTIONAL_IDS_EXPIRED.sample(coordinator.sweeps.expired)
    yield metrics.TRANSACTION_OLDEST_OPEN_SECONDS.sample(coordinator.listing.oldest_open_seconds())
    yield metrics.TRANSACTION_MARKERS_WAITING.sample(coordinator.markers.waiting)
    yield metrics.TRANSACTION_MARKER_RETRIES.sample(coordinator.markers.retries)
    yield metrics.TRANSACTION_PARTITIONS_REFUSED.sample(coordinator.runtime.failed_partitions)


# --- metrics of clients ---------------------------------------------------------------------------------


def _client_metrics(broker: AnyBroker) -> Iterator[Sample]:
    """Nothing from a broker that takes no metrics of clients."""
    parts = broker.parts.telemetry
    if parts is None:
        return
    telemetry = parts.telemetry
    telemetry.forget_silent()
    yield from _telemetry_counts(telemetry)
    for client in telemetry.series:
        name = client.labels[:2]
        described = (
            client.resource.get(key, "")
            for key in ("group_id", "group_member_id", "transactional_id", "client_rack")
        )
        yield Sample(telemetry_metrics.CLIENT_INFO, (*client.labels, *described), 1)
        for series, value in client.gauges.items():
            yield Sample(telemetry_metrics.CLIENT_METRIC, (*name, *series), value)
        for series, value in client.counters.items():
            yield Sample(telemetry_metrics.CLIENT_COUNTER, (*name, *series), value)


def _telemetry_counts(telemetry: ClientTelemetry) -> Iterator[Sample]:
    series = telemetry.series
    yield telemetry_metrics.CLIENT_INSTANCES.sample(len(telemetry.instances))
    yield telemetry_metrics.CLIENT_INSTANCES_EVICTED.sample(telemetry.instances.evicted)
    yield telemetry_metrics.CLIENT_METRIC_SERIES.sample(series.count)
    yield telemetry_metrics.CLIENT_METRIC_DROPPED.sample(series.beyond_client_bound, "client")
    yield telemetry_metrics.CLIENT_METRIC_DROPPED.sample(series.unsupported, "kind")
    yield telemetry_metrics.CLIENT_METRIC_DROPPED.sample(series.evicted, "evicted")
    yield telemetry_metrics.CLIENT_PUSHES.sample(telemetry.pushes)
    yield telemetry_metrics.CLIENT_PUSHES_REFUSED.sample(telemetry.throttled, "early")
    yield telemetry_metrics.CLIENT_PUSHES_REFUSED.sample(telemetry.unknown_subscriptions, "subscription")
    yield telemetry_metrics.CLIENT_PUSHES_REFUSED.sample(telemetry.refused, "unreadable")


# --- lag ------------------------------------------------------------------------------------------------


def _lag(broker: AnyBroker, ages: LagAges) -> Iterator[Sample]:
    ages.begin_scrape()
    shown: set[tuple[str, str, int]] = set()
    for group_id, topic, index, offset in _list_committed(broker):
        partition = broker.partitions.find(topic, index)
        # A group of ZooKeeper may have committed with its coordinator before, or may do both.
        if partition is None or partition.gone is not None or (group_id, topic, index) in shown:
            continue
        shown.add((group_id, topic, index))
        next_offset = max(offset, partition.log.log_start_offset)
        lag = max(0, partition.last_stable_offset - next_offset)
        yield metrics.GROUP_LAG_MESSAGES.sample(lag, group_id, topic, index)
        seconds = 0.0 if lag == 0 else ages.seconds(partition, next_offset)
        if seconds is not None:
            yield metrics.GROUP_LAG_SECONDS.sample(seconds, group_id, topic, index)


def _list_committed(broker: AnyBroker) -> Iterator[tuple[str, str, int, int]]:
    """(group, topic, partition, offset): of the groups coordinated here, and of those in ZooKeeper."""
    coordinator = broker.coordinators.started_groups
    if coordinator is not None:
        yield from coordinator.offsets.list_committed()
    zookeeper_groups = broker.coordinators.zookeeper_groups
    if zookeeper_groups is not None:
        yield from zookeeper_groups.list_committed()


class LagAges:
    """The age of the record at an offset. Cached, since a stuck group has the same offset at each scrape.

    Each age needs one batch header from the page cache. A header that is not cached is not read, and the age is left
    out of this scrape. The age is that of the batch's first record, at most a linger more than the record's own.
    """

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._times: dict[tuple[str, int, int], int] = {}
        self._used: set[tuple[str, int, int]] = set()
        self._reads_left = 0

    def begin_scrape(self) -> None:
        """Drop ages that the last scrape did not use, and allow one scrape's number of reads."""
        self._times = {key: self._times[key] for key in self._used if key in self._times}
        self._used = set()
        self._reads_left = LAG_LOOKUPS_PER_SCRAPE_MAX

    def seconds(self, partition: Partition, offset: int) -> float | None:
        """Seconds since the record at `offset` was created; None when that needs a read of the disk."""
        key = (*partition.topic_partition, offset)
        timestamp_ms = self._times.get(key)
        if timestamp_ms is None:
            timestamp_ms = self._timestamp_ms(partition, offset)
            if timestamp_ms is None or len(self._times) >= LAG_TIMES_REMEMBERED_MAX:
                return None
            self._times[key] = timestamp_ms
        self._used.add(key)
        return max(0.0, (self._wall_ms() - timestamp_ms) / _MS_PER_SECOND)

    def _timestamp_ms(self, partition: Partition, offset: int) -> int | None:
        if self._reads_left <= 0:
            return None
        self._reads_left -= 1
        found = header_slice(partition, offset)
        if found is None or found.file is None:
            return None
        data = found.file.pread_cached(found.position, HEADER_BYTES)
        return None if data is None else base_timestamp_ms(data)
