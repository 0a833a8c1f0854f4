"""The bounds of a mirror, each with its reason; those of all other parts are in `limits`."""

from __future__ import annotations

from typing import Final

# Bytes of the source that a flow of a mirror holds before they are written, besides one fetch per leader. They are
# several transactions, so that reading continues while one ends.
MIRROR_BYTES_BUFFERED_MAX: Final = 32 * 1024 * 1024

# Bytes of one fetch of a mirror, and of one partition in it. A large fetch costs the source least, and two of them fit
# into the buffer.
MIRROR_FETCH_BYTES_MAX: Final = 16 * 1024 * 1024
MIRROR_FETCH_PARTITION_BYTES_MAX: Final = 4 * 1024 * 1024

# Answers of fetches that wait for one partition of a mirror: one that is written and one that arrives.
MIRROR_FETCHES_BUFFERED_MAX: Final = 2

# How long the source may hold a fetch of a mirror without data, as Kafka's consumers let it.
MIRROR_FETCH_WAIT_MS_MAX: Final = 500

# Pauses of a mirror after errors: at first and at most. An outage of hours costs two tries in a minute.
MIRROR_RETRY_PAUSE_MS_MIN: Final = 100
MIRROR_RETRY_PAUSE_MS_MAX: Final = 30_000

# Reads of a batch that is damaged, or that the target refuses, before a mirror stops its partition. Damage on the way
# is gone at the next read, damage on a disk is not.
MIRROR_DAMAGED_READS_MAX: Final = 3

# Requests of a mirror under way to one broker, and for one partition. Brokers recognise the last five batches of a
# producer, so no more may be repeated.
MIRROR_PRODUCES_IN_FLIGHT_MAX: Final = 5

# Batches of a mirror that wait for their acknowledgement. A transaction of many small batches must end in time, and a
# slow target takes a few hundred in a second.
MIRROR_BATCHES_WAITING_MAX: Final = 128

# Bytes of one Produce request with batches of several partitions; a single larger batch goes alone. Kafka's producer
# has the same bound (max.request.size).
MIRROR_PRODUCE_BYTES_MAX: Final = 1024 * 1024

# Transactional ids behind those of its members that the leader of a mirror's group ends, in case so many workers died
# at once. What more workers had open, the target ends after transaction.timeout.ms.
MIRROR_IDS_ENDED_MAX: Final = 3

# How long a mirror works on its open transaction after the signal to stop. Kafka Connect gives its tasks as much
# (task.shutdown.graceful.timeout.ms). Aborts, leaves and last offsets follow, a few seconds each: all together less
# than the 30 s that Kubernetes waits.
MIRROR_STOP_SECONDS_MAX: Final = 5.0

# How long a worker of a mirror that is silent keeps its partitions, and how long others wait for one that hangs.
MIRROR_SESSION_MS: Final = 10_000
MIRROR_REBALANCE_MS: Final = 30_000
MIRROR_HEARTBEAT_MS: Final = 2_000

# How long the source's end of a partition counts as known without an answer, and how long the source has to answer.
# Both together are less than the time between two scrapes of Prometheus (15 s or more).
MIRROR_ENDS_SECONDS: Final = 5.0

# How long a worker waits for the next batch before it ends a transaction: readers at the target wait with it.
MIRROR_IDLE_MS: Final = 10

# How often positions of idle partitions are committed again, so that the target does not forget them
# (offsets.retention.minutes is a week).
MIRROR_POSITIONS_RENEWED_SECONDS: Final = 86_400

# Rows that a mirror keeps for a partition to translate offsets, 40 bytes each. At ten transactions in a second the
# last three minutes are translated exactly, and a day ago within a thousand records.
MIRROR_OFFSET_RUNS_PER_PARTITION_MAX: Final = 4_096

# Such rows of all partitions of a source together: 40 MB.
MIRROR_OFFSET_RUNS_MAX: Final = 1_000_000

# Offset syncs, and checkpoints, that a mirror reads when it starts: the newest ones, some ten seconds of reading in the
# background. Groups that are further behind are translated by the first one that is known.
MIRROR_STORED_OFFSETS_READ_MAX: Final = 1_000_000
