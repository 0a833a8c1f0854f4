"""The metrics of share groups. `foundation.metrics` has those of the rest of a broker, and says how it works.

Their names follow Kafka's: `InFlightMessageCount` of `SharePartitionMetrics` is
`odradek_share_partition_in_flight_messages`. Share groups by state are part of `odradek_groups`.
"""

from __future__ import annotations

from odradek.foundation.metric_kinds import counter as _counter
from odradek.foundation.metric_kinds import gauge as _gauge
from odradek.foundation.metric_kinds import histogram as _histogram

_PARTITION = ("group", "topic", "partition")

# --- groups ----------------------------------------------------------------------------------------------

SHARE_GROUP_REBALANCES = _counter(
    "odradek_share_group_rebalances_total", "New epochs of share groups, over all of them."
)
SHARE_ACKNOWLEDGEMENTS = _counter(
    "odradek_share_group_record_acknowledgements_total",
    "Records that members acknowledged, by Kafka's name of the type: Accept, Release, Reject, Renew, Gap.",
    "ack_type",
)
SHARE_PARTITION_LOAD_SECONDS = _histogram(
    "odradek_share_group_partition_load_seconds",
    "Seconds until a share-partition that is new to this broker had read its state.",
)

# --- share-partitions that this broker leads -------------------------------------------------------------

IN_FLIGHT_MESSAGES = _gauge(
    "odradek_share_partition_in_flight_messages",
    "Offsets in flight: acquired, available again, or done while one before them is not.",
    *_PARTITION,
)
IN_FLIGHT_BATCHES = _gauge(
    "odradek_share_partition_in_flight_batches", "Batches of offsets in flight.", *_PARTITION
)
ACQUIRED_MESSAGES = _gauge(
    "odradek_share_partition_acquired_messages",
    "Records that a member has a lock of; no sample where a scrape has looked at too many others.",
    *_PARTITION,
)
LOCK_TIMEOUTS = _counter(
    "odradek_share_partition_acquisition_lock_timeouts_total",
    "Records whose lock ended by time, before its member acknowledged them.",
    *_PARTITION,
)
SHARE_LAG_MESSAGES = _gauge(
    "odradek_share_partition_lag_messages",
    "Offsets up to the high watermark whose delivery to the group is not complete.",
    *_PARTITION,
)

# --- dead letters ----------------------------------------------------------------------------------------

DEAD_LETTERS_WRITTEN = _counter(
    "odradek_share_group_dead_letter_queue_records_total",
    "Records written to the dead-letter topic of a group.",
    "group",
)
DEAD_LETTERS_REFUSED = _counter(
    "odradek_share_group_dead_letter_queue_refused_records_total",
    "Records archived without a dead letter, since the topic breaks a rule or refuses them; the log says why.",
    "group",
)
DEAD_LETTER_REQUESTS = _counter(
    "odradek_share_group_dead_letter_queue_produce_requests_total",
    "Batches of dead letters sent to the leaders of their topics.",
    "group",
)
DEAD_LETTER_FAILED_REQUESTS = _counter(
    "odradek_share_group_dead_letter_queue_failed_produce_requests_total",
    "Batches of dead letters that failed; those that may succeed later are sent again.",
    "group",
)
DEAD_LETTERS_UNDER_WAY = _gauge(
    "odradek_share_group_dead_letter_queue_records_under_way",
    "Records that wait for their dead letter, over all groups: they are in flight until it is written.",
)

# --- sessions and states ---------------------------------------------------------------------------------

SHARE_SESSIONS = _gauge("odradek_share_sessions", "Share sessions kept.")
SHARE_SESSION_PARTITIONS = _gauge(
    "odradek_share_session_partitions", "Partitions of share sessions, counted once for each session."
)
SHARE_SESSIONS_REFUSED = _counter(
    "odradek_share_sessions_refused_total",
    "Share sessions refused for group.share.max.share.sessions; none is evicted for another.",
)
SHARE_STATE_REQUESTS = _counter(
    "odradek_share_state_requests_total", "Requests about states of share-partitions to other brokers."
)
SHARE_STATE_WRITES = _counter(
    "odradek_share_coordinator_writes_total", "Changes of states written to __share_group_state."
)
SHARE_STATE_PARTITIONS_REFUSED = _gauge(
    "odradek_share_coordinator_partitions_refused",
    "Partitions of __share_group_state that cannot be loaded; their states are refused until they can.",
)
