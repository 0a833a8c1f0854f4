"""Every metric, declared once: its name, kind, labels and meaning; and the samples that a scrape collects.

Components count with plain integers and do not import this module. A source is a function of the process that a scrape
calls. It yields samples, `REQUESTS.sample(n, api)`. So counting costs an addition, and the scrape pays for the rest.

`odradek.foundation.exposition` writes samples with prometheus_client, which a broker without `--admin` never imports.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from odradek.foundation import machine_metrics as machine_metrics
from odradek.foundation import mirror_metrics as mirror_metrics
from odradek.foundation import share_metrics as share_metrics
from odradek.foundation import telemetry_metrics as telemetry_metrics
from odradek.foundation.metric_kinds import METRICS as METRICS
from odradek.foundation.metric_kinds import Distribution as Distribution
from odradek.foundation.metric_kinds import Metric as Metric
from odradek.foundation.metric_kinds import MetricKind as MetricKind
from odradek.foundation.metric_kinds import Sample as Sample
from odradek.foundation.metric_kinds import counter as _counter
from odradek.foundation.metric_kinds import gauge as _gauge
from odradek.foundation.metric_kinds import histogram as _histogram

# Labels of several metrics.
_LOGIN = ("listener", "mechanism")
_PARTITION = ("topic", "partition")

# --- requests ------------------------------------------------------------------------------------------

REQUESTS = _counter("odradek_requests_total", "Requests answered.", "api")
REQUEST_FAILURES = _counter("odradek_request_failures_total", "Requests that failed as a whole.", "api")
LONG_TURNS = _counter(
    "odradek_long_turns_total",
    "Turns of the event loop in which a request held up all others for more than 20 ms; the log names some.",
    "api",
)
SLOW_REQUESTS = _counter("odradek_slow_requests_total", "Requests slower than slow.request.log.ms.", "api")
SLOW_REQUESTS_NOT_LOGGED = _counter(
    "odradek_slow_requests_not_logged_total", "Slow requests without a line: the log has 60 a minute at most."
)
REQUEST_BYTES = _counter("odradek_request_bytes_total", "Bytes of requests, without their sizes.", "api")
RESPONSE_BYTES = _counter("odradek_response_bytes_total", "Bytes of answers, sizes included.", "api")
REQUEST_SECONDS = _histogram(
    "odradek_request_seconds",
    "Seconds from the start of a request to its answer; long polls include their wait.",
    "api",
)
MALFORMED_REQUESTS = _counter(
    "odradek_malformed_requests_total", "Requests that could not be read; each ended its connection."
)
DENIED_OPERATIONS = _counter(
    "odradek_denied_operations_total", "Operations that the authorizer denied; its log names them."
)
WAITING_REQUESTS = _gauge(
    "odradek_waiting_requests", "Requests that wait: fetches for data, produces for replicas.", "kind"
)
FETCH_SESSIONS = _gauge("odradek_fetch_sessions", "Fetch sessions kept.")
FETCH_SESSION_EVICTIONS = _counter(
    "odradek_fetch_session_evictions_total", "Fetch sessions evicted for others."
)

# --- connections ---------------------------------------------------------------------------------------

CONNECTIONS = _gauge("odradek_connections", "Connections open.", "listener")
CONNECTIONS_OPENED = _counter("odradek_connections_opened_total", "Connections accepted.", "listener")
CONNECTIONS_REFUSED = _counter(
    "odradek_connections_refused_total", "Connections refused by a limit.", "listener"
)
TLS_HANDSHAKES = _counter("odradek_tls_handshakes_total", "TLS handshakes that succeeded.", "listener")
TLS_HANDSHAKE_FAILURES = _counter(
    "odradek_tls_handshake_failures_total",
    "TLS handshakes that failed, were given up, or showed a certificate that is refused.",
    "listener",
)
CERTIFICATE_NOT_AFTER_SECONDS = _gauge(
    "odradek_certificate_not_after_seconds",
    "When the certificate that a listener shows ends, in seconds since 1970.",
    "listener",
)
CERTIFICATE_RELOADS = _counter(
    "odradek_certificate_reloads_total",
    "Changed keys, certificates or authorities of a listener that were taken.",
    "listener",
)
CERTIFICATE_RELOAD_FAILURES = _counter(
    "odradek_certificate_reload_failures_total",
    "Attempts to take changed files that failed; each is made again, twice a second, until it succeeds.",
    "listener",
)
LOGINS = _counter("odradek_logins_total", "Logins of new connections.", *_LOGIN)
LOGIN_FAILURES = _counter(
    "odradek_login_failures_total",
    "Logins of new connections that were refused; with none of the listener's mechanisms it is `none`.",
    *_LOGIN,
)
LOGIN_RENEWALS = _counter("odradek_login_renewals_total", "Logins renewed on open connections.", *_LOGIN)
LOGIN_RENEWAL_FAILURES = _counter(
    "odradek_login_renewal_failures_total",
    "Renewals of logins that were refused; each ended its connection.",
    *_LOGIN,
)
LOGINS_EXPIRED = _counter(
    "odradek_logins_expired_total",
    "Connections closed because their login had ended and was not renewed.",
    *_LOGIN,
)
RECEIVED_BYTES = _counter("odradek_received_bytes_total", "Bytes read from connections.", "listener")
SENT_BYTES = _counter("odradek_sent_bytes_total", "Bytes written to connections.", "listener")

# --- topics and logs -----------------------------------------------------------------------------------

TOPIC_BYTES_IN = _counter("odradek_topic_bytes_in_total", "Bytes of batches appended.", "topic")
TOPIC_RECORDS_IN = _counter("odradek_topic_records_in_total", "Records appended.", "topic")
TOPIC_BATCHES_IN = _counter("odradek_topic_batches_in_total", "Batches appended.", "topic")
TOPIC_BYTES_OUT = _counter("odradek_topic_bytes_out_total", "Bytes of batches sent to consumers.", "topic")
TOPIC_APPEND_FAILURES = _counter("odradek_topic_append_failures_total", "Appends refused or failed.", "topic")
LOG_START_OFFSET = _gauge("odradek_log_start_offset", "The first offset kept.", *_PARTITION)
LOG_END_OFFSET = _gauge("odradek_log_end_offset", "The next offset to be written.", *_PARTITION)
HIGH_WATERMARK = _gauge(
    "odradek_high_watermark", "Offsets below are held by all in-sync replicas.", *_PARTITION
)
LAST_STABLE_OFFSET_LAG = _gauge(
    "odradek_last_stable_offset_lag",
    "Offsets below the high watermark that readers of committed records may not read yet.",
    *_PARTITION,
)
OPEN_TRANSACTIONS = _gauge(
    "odradek_open_transactions", "Transactions without a marker, counted once for each partition."
)
OLDEST_TRANSACTION_SECONDS = _gauge(
    "odradek_oldest_transaction_seconds",
    "The age of a partition's oldest open transaction; absent where none is open.",
    *_PARTITION,
    "producer_id",
)
PARTITIONS_WITH_LATE_TRANSACTIONS = _gauge(
    "odradek_partitions_with_late_transactions",
    "Partitions whose oldest transaction is open for 5 minutes longer than transaction.max.timeout.ms allows.",
)
TRANSACTION_VERIFICATIONS = _counter(
    "odradek_transaction_verifications_total",
    "Questions to coordinators whether a partition belongs to a transaction.",
)
TRANSACTION_VERIFICATION_REQUESTS = _counter(
    "odradek_transaction_verification_requests_total", "Requests that carried these questions."
)
LOG_SIZE_BYTES = _gauge("odradek_log_size_bytes", "Bytes of a partition's segments on disk.", *_PARTITION)
LOG_SEGMENTS = _gauge("odradek_log_segments", "Segments of a partition.", *_PARTITION)
LOG_FLUSHES = _counter("odradek_log_flushes_total", "Times that a log was synced to disk.")
LOG_FLUSH_SECONDS = _counter("odradek_log_flush_seconds_total", "Seconds spent syncing logs to disk.")
LOGS_TO_OPEN = _gauge(
    "odradek_logs_to_open", "Logs that the start still has to open and, after an unclean stop, to scan."
)
LOG_RECOVERY_SCANNED_BYTES = _counter(
    "odradek_log_recovery_scanned_bytes_total", "Bytes of log that this start had to read in full."
)
LOG_RECOVERY_CUT_BYTES = _counter(
    "odradek_log_recovery_cut_bytes_total",
    "Torn or damaged bytes that this start truncated at the ends of logs.",
)
LOG_DIRECTORY_ONLINE = _gauge(
    "odradek_log_directory_online", "1 while a log directory works, else 0.", "path"
)
LOG_DIRECTORY_FULL = _gauge(
    "odradek_log_directory_full",
    "1 while a log directory refuses writes for lack of space, else 0; absent when it failed.",
    "path",
)
LOG_DIRECTORY_FREE_BYTES = _gauge("odradek_log_directory_free_bytes", "Bytes free for logs.", "path")
LOG_DIRECTORY_TOTAL_BYTES = _gauge(
    "odradek_log_directory_total_bytes", "Bytes of the volume that a log directory is on.", "path"
)
PARTITIONS_OFFLINE = _gauge("odradek_partitions_offline", "Partitions whose log failed here.")

# --- compaction ----------------------------------------------------------------------------------------

UNCLEANABLE_PARTITIONS = _gauge(
    "odradek_uncleanable_partitions",
    "Partitions that are not compacted any more until a restart, since a round on them failed.",
)
UNCLEANABLE_BYTES = _gauge(
    "odradek_uncleanable_bytes", "Bytes of the partitions that are not compacted any more."
)
CLEANER_MAX_DIRTY_RATIO = _gauge(
    "odradek_cleaner_max_dirty_ratio",
    "The part that is not compacted yet of the log where it is largest; open segments do not count.",
)
CLEANER_SECONDS_SINCE_LOOK = _gauge(
    "odradek_cleaner_seconds_since_look",
    "Seconds since the cleaner last looked for dirty logs; it grows when the cleaner stands still.",
)
CLEANER_ROUNDS = _counter("odradek_cleaner_rounds_total", "Rounds of compaction that were completed.")
CLEANER_READ_BYTES = _counter("odradek_cleaner_read_bytes_total", "Bytes of logs read by compaction.")
CLEANER_WRITTEN_BYTES = _counter(
    "odradek_cleaner_written_bytes_total", "Bytes of logs written by compaction."
)
CLEANER_SAVED_BYTES = _counter(
    "odradek_cleaner_saved_bytes_total",
    "Bytes of logs that compaction freed.",
)
CLEANER_RECORDS_KEPT = _counter(
    "odradek_cleaner_records_kept_total", "Records that compaction read and kept."
)
CLEANER_RECORDS_REMOVED = _counter(
    "odradek_cleaner_records_removed_total", "Records that compaction removed."
)
CLEANER_MAP_FILL_RATIO = _gauge(
    "odradek_cleaner_map_fill_ratio",
    "The part of the map of keys that the last round filled. At 1 a log needs several rounds: see "
    "log.cleaner.dedupe.buffer.size.",
)

# --- replication ---------------------------------------------------------------------------------------

REPLICA_LAG_RECORDS = _gauge(
    "odradek_replica_lag_records",
    "Records that a follower is behind the partitions that this broker leads, the largest of all.",
    "replica",
)
PARTITIONS_LED = _gauge("odradek_partitions_led", "Partitions that this broker leads.")
PARTITIONS_BELOW_MIN_IN_SYNC = _gauge(
    "odradek_partitions_below_min_in_sync",
    "Partitions led here with fewer replicas in sync than min.insync.replicas.",
)
IN_SYNC_SHRINKS = _counter(
    "odradek_in_sync_shrinks_total", "In-sync sets that a leader here had made smaller."
)
IN_SYNC_EXPANSIONS = _counter(
    "odradek_in_sync_expansions_total", "In-sync sets that a leader here had made larger."
)
REPLICA_FETCHES = _counter("odradek_replica_fetches_total", "Fetches from another broker.", "leader")
REPLICA_FETCH_FAILURES = _counter(
    "odradek_replica_fetch_failures_total",
    "Fetches from another broker, or single partitions of them, that failed.",
    "leader",
)
REPLICA_BYTES_IN = _counter(
    "odradek_replica_bytes_in_total", "Bytes of batches fetched from a leader.", "leader"
)
REPLICATION_THROTTLE = _gauge(
    "odradek_replication_throttle_bytes_per_second",
    "The rate at which throttled replicas may be sent (leader) or fetched (follower); absent without a limit.",
    "side",
)
THROTTLED_REPLICATION_BYTES = _counter(
    "odradek_throttled_replication_bytes_total",
    "Bytes of throttled replicas that were sent (leader) or fetched (follower).",
    "side",
)
THROTTLED_REPLICATION_HELD_BACK = _counter(
    "odradek_throttled_replication_held_back_total",
    "How often a replica that is not in sync had to wait for the throttle.",
    "side",
)

# --- cluster -------------------------------------------------------------------------------------------

BROKERS = _gauge("odradek_brokers", "Live brokers.")
TOPICS = _gauge("odradek_topics", "Topics.")
PARTITIONS = _gauge("odradek_partitions", "Partitions of all topics.")
IS_CONTROLLER = _gauge("odradek_is_controller", "1 on the active controller, else 0.")
CONTROLLER_EPOCH = _gauge("odradek_controller_epoch", "The active controller's epoch; only there.")
CONTROLLER_FOLLOWERS = _gauge(
    "odradek_controller_followers", "Brokers that follow the active controller; only there."
)
CONTROLLER_DEAD_BROKERS = _counter(
    "odradek_controller_dead_brokers_total",
    "Registrations of silent or ended brokers that the active controller deleted in its term; only there.",
)
PARTITIONS_LEADERLESS = _gauge(
    "odradek_partitions_leaderless", "Partitions without a leader; on the active controller."
)
PARTITIONS_UNDER_REPLICATED = _gauge(
    "odradek_partitions_under_replicated",
    "Partitions with fewer replicas in sync than they have; on the active controller.",
)
PARTITIONS_REASSIGNING = _gauge(
    "odradek_partitions_reassigning", "Partitions that are moving to other brokers; on the active controller."
)
IS_FENCED = _gauge(
    "odradek_is_fenced", "1 on a broker that is not a member of its cluster at the moment, else 0."
)
REGISTRY_SILENT = _gauge(
    "odradek_registry_silent",
    "1 on a broker of a cluster whose registry has not answered for a session's timeout, else 0.",
)
REGISTRY_CONNECTED = _gauge(
    "odradek_registry_connected",
    "1 on a broker or controller whose session with the registry is connected at this moment, else 0.",
)
PARTITIONS_UNCONFIRMED = _gauge(
    "odradek_partitions_unconfirmed",
    "Partitions led here that refuse clients, because the registry is silent and another broker may lead them.",
)
CLUSTER_CHANGES_APPLIED = _counter(
    "odradek_cluster_changes_applied_total",
    "Changes that controllers sent to this broker of a cluster, snapshots included.",
)
FORWARDED_REQUESTS = _counter(
    "odradek_forwarded_requests_total", "Requests that a broker forwarded to the active controller."
)

# --- transactions --------------------------------------------------------------------------------------

TRANSACTIONAL_IDS = _gauge(
    "odradek_transactional_ids", "Transactional ids that this broker coordinates, by state.", "state"
)
TRANSACTIONS_COMPLETED = _counter(
    "odradek_transactions_completed_total", "Transactions whose markers are all written.", "outcome"
)
TRANSACTIONS_TIMED_OUT = _counter(
    "odradek_transactions_timed_out_total", "Transactions that were aborted because of their timeout."
)
TRANSACTIONAL_IDS_EXPIRED = _counter(
    "odradek_transactional_ids_expired_total",
    "Transactional ids that were removed because they were not used.",
)
TRANSACTION_OLDEST_OPEN_SECONDS = _gauge(
    "odradek_transaction_oldest_open_seconds",
    "Age of the oldest transaction that is not complete; 0 where there is none.",
)
TRANSACTION_MARKERS_WAITING = _gauge(
    "odradek_transaction_markers_waiting", "Markers that wait for a leader, or for their next attempt."
)
TRANSACTION_MARKER_RETRIES = _counter(
    "odradek_transaction_marker_retries_total", "Attempts to write markers that were put off."
)
TRANSACTION_PARTITIONS_REFUSED = _gauge(
    "odradek_transaction_partitions_refused",
    "Partitions of __transaction_state that cannot be loaded; their ids are refused until they can.",
)

# --- groups --------------------------------------------------------------------------------------------

GROUPS = _gauge("odradek_groups", "Groups by protocol and state.", "protocol", "state")
GROUP_MEMBERS = _gauge("odradek_group_members", "Members of a group.", "group")
GROUP_REBALANCES = _counter("odradek_group_rebalances_total", "Rebalances completed, over all groups.")
STREAMS_GROUP_REBALANCES = _counter(
    "odradek_streams_group_rebalances_total", "New epochs of Streams groups, over all of them."
)
GROUP_OFFSET_COMMITS = _counter("odradek_group_offset_commits_total", "Offsets committed, over all groups.")
GROUP_PARTITIONS_REFUSED = _gauge(
    "odradek_group_partitions_refused",
    "Partitions of __consumer_offsets that cannot be loaded; their groups are refused until they can.",
)
GROUP_LAG_MESSAGES = _gauge(
    "odradek_group_lag_messages",
    "Offsets between a group's committed offset and the end of the readable records.",
    "group",
    *_PARTITION,
)
GROUP_LAG_SECONDS = _gauge(
    "odradek_group_lag_seconds",
    "Age of the first record that a group has not committed; 0 when it has committed all.",
    "group",
    *_PARTITION,
)

# --- quotas of clients -----------------------------------------------------------------------------------

QUOTA_THROTTLES = _counter(
    "odradek_quota_throttles_total",
    "Requests above a quota: their clients were asked to wait, and their connections were muted.",
    "quota",
)
QUOTA_THROTTLE_SECONDS = _counter(
    "odradek_quota_throttle_seconds_total", "Seconds that these clients were asked to wait.", "quota"
)
QUOTA_CLIENT_THROTTLE_SECONDS = _gauge(
    "odradek_quota_client_throttle_seconds",
    "Seconds that clients of a user or client id were asked to wait, for those with the most.",
    "quota",
    "user",
    "client_id",
)
QUOTA_IP_THROTTLE_SECONDS = _gauge(
    "odradek_quota_ip_throttle_seconds",
    "Seconds that refused connections of an address were held, for those with the most.",
    "ip",
)
ACCEPT_THROTTLES = _counter(
    "odradek_accept_throttles_total",
    "Connections that waited to be accepted because of max.connection.creation.rate.",
    "listener",
)
ACCEPT_THROTTLE_SECONDS = _counter(
    "odradek_accept_throttle_seconds_total", "Seconds that these connections waited.", "listener"
)

# --- the process ---------------------------------------------------------------------------------------

BUILD_INFO = _gauge("odradek_build_info", "Always 1; the labels hold the version.", "version", "python")
PROCESS_CPU_SECONDS = _counter("process_cpu_seconds_total", "Processor time used, user and system.")
PROCESS_RESIDENT_BYTES = _gauge("process_resident_memory_bytes", "Memory in use.")
PROCESS_VIRTUAL_BYTES = _gauge("process_virtual_memory_bytes", "Address space in use.")
PROCESS_OPEN_FDS = _gauge("process_open_fds", "Open file descriptors.")
PROCESS_MAX_FDS = _gauge("process_max_fds", "File descriptors that may be open.")
PROCESS_START_TIME = _gauge(
    "process_start_time_seconds", "Start of the process, seconds since the Unix epoch."
)

Source = Callable[[], Iterable[Sample]]


class MetricsRegistry:
    """The sources of one process, called at each scrape."""

    def __init__(self) -> None:
        self._sources: list[Source] = []

    def register(self, source: Source) -> None:
        """Call `source` at each scrape from now on."""
        self._sources.append(source)

    def collect(self) -> dict[Metric, list[Sample]]:
        """The samples of all sources by metric. A metric without a sample is absent."""
        collected: dict[Metric, list[Sample]] = {}
        for source in self._sources:
            for sample in source():
                collected.setdefault(sample.metric, []).append(sample)
        return collected


def process_samples() -> Iterator[Sample]:
    """Samples of this process from the operating system; none without /proc."""
    times = os.times()
    yield PROCESS_CPU_SECONDS.sample(times.user + times.system)
    try:
        stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        booted = next(
            int(line.split()[1])
            for line in Path("/proc/stat").read_text().splitlines()
            if line.startswith("btime ")
        )
        open_fds = len(os.listdir("/proc/self/fd"))
    except OSError:
        return
    # Fields of proc(5) counted from the state: 20 is starttime in ticks, 21 vsize, 22 rss in pages.
    yield PROCESS_RESIDENT_BYTES.sample(int(stat[21]) * os.sysconf("SC_PAGE_SIZE"))
    yield PROCESS_VIRTUAL_BYTES.sample(int(stat[20]))
    yield PROCESS_START_TIME.sample(booted + int(stat[19]) / os.sysconf("SC_CLK_TCK"))
    yield PROCESS_OPEN_FDS.sample(open_fds)
    # -1 stands for no limit, which Prometheus cannot express.
    limit = os.sysconf("SC_OPEN_MAX")
    if limit >= 0:
        yield PROCESS_MAX_FDS.sample(limit)
