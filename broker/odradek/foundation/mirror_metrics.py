"""The metrics of a mirror's process. `foundation.metrics` has those of brokers and controllers, and says how it works.

A flow goes from one source to the target, and the label `source` has the source's alias. Topics and partitions are
those of the source.
"""

from __future__ import annotations

from odradek.foundation.metric_kinds import counter as _counter
from odradek.foundation.metric_kinds import gauge as _gauge

_PARTITION = ("source", "topic", "partition")

# --- partitions ------------------------------------------------------------------------------------------

MIRROR_LAG_RECORDS = _gauge(
    "odradek_mirror_lag_records",
    "Offsets between what is at the target and the end of the source's readable records; no sample while unknown.",
    *_PARTITION,
)
MIRROR_LAG_SECONDS = _gauge(
    "odradek_mirror_lag_seconds",
    "Seconds for which records of the source have waited to be mirrored; 0 when all are at the target, no sample while "
    "that is unknown.",
    *_PARTITION,
)
MIRROR_LAST_RECORD_AGE_SECONDS = _gauge(
    "odradek_mirror_last_record_age_seconds",
    "Age of the newest record that this process mirrored, by the record's own time.",
    *_PARTITION,
)
MIRROR_RECORDS = _counter("odradek_mirror_records_total", "Records mirrored.", *_PARTITION)
MIRROR_BYTES = _counter("odradek_mirror_bytes_total", "Bytes of batches mirrored.", *_PARTITION)
MIRROR_BATCHES = _counter("odradek_mirror_batches_total", "Batches mirrored.", *_PARTITION)
MIRROR_BATCHES_OPENED = _counter(
    "odradek_mirror_batches_opened_total",
    "Batches that could not pass as they were, and were written again.",
    *_PARTITION,
    "reason",
)
MIRROR_PARTITION_STOPPED = _gauge(
    "odradek_mirror_partition_stopped",
    "1 for a partition that is not mirrored until the cause is removed; /mirror says why.",
    *_PARTITION,
)
MIRROR_ERRORS = _counter(
    "odradek_mirror_errors_total",
    "Errors by kind; those of a whole flow have no topic and no partition.",
    *_PARTITION,
    "kind",
)

# --- flows -----------------------------------------------------------------------------------------------

MIRROR_PARTITIONS = _gauge("odradek_mirror_partitions", "Partitions that this process mirrors.", "source")
MIRROR_FLOW_RUNNING = _gauge(
    "odradek_mirror_flow_running", "1 while the flow runs, 0 while it starts, waits or has failed.", "source"
)
MIRROR_TRANSACTIONS = _counter(
    "odradek_mirror_transactions_total", "Transactions at the target.", "source", "outcome"
)
MIRROR_FENCINGS = _counter(
    "odradek_mirror_fencings_total",
    "Times that another process took over this one's work; it then starts again.",
    "source",
)

# --- groups ----------------------------------------------------------------------------------------------

MIRROR_GROUPS = _gauge(
    "odradek_mirror_groups", "Groups of the source whose offsets are translated.", "source"
)
MIRROR_CHECKPOINTS = _counter("odradek_mirror_checkpoints_total", "Checkpoints written.", "source")
MIRROR_CHECKPOINT_AGE_SECONDS = _gauge(
    "odradek_mirror_checkpoint_age_seconds", "Seconds since all groups were looked at last.", "source"
)
MIRROR_GROUP_OFFSETS = _counter(
    "odradek_mirror_group_offsets_total", "Offsets written to groups of the target.", "source"
)
MIRROR_OFFSET_SYNCS = _counter("odradek_mirror_offset_syncs_total", "Offset syncs written.", "source")
MIRROR_HEARTBEATS = _counter("odradek_mirror_heartbeats_total", "Heartbeats written.", "source")
