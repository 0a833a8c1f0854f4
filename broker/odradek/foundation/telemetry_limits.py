"""The bounds of metrics that clients push, each with its reason; those of all other parts are in `limits`."""

from __future__ import annotations

from typing import Final

# Clients that a broker remembers for their pushes, as in Kafka, at some 500 bytes each. Beyond it the one that has been
# silent for longest is forgotten: it asks for its subscription again.
TELEMETRY_INSTANCES_MAX: Final = 16_384

# How long a silent client is remembered, as in Kafka: three of its intervals, and not less than this.
TELEMETRY_INSTANCE_SECONDS_MIN: Final = 60.0
TELEMETRY_INTERVALS_REMEMBERED: Final = 3

# How often instances that have been silent for too long are looked for: each of them takes a tenth of a microsecond.
TELEMETRY_SWEEP_SECONDS: Final = 10.0

# Series of one client in /metrics. A Java producer of all its metrics has some 150, and a consumer five for each of its
# partitions.
TELEMETRY_SERIES_PER_CLIENT_MAX: Final = 1_000

# Series of all clients, of which each client has one more that describes it: at some 300 bytes in memory, and as many
# in an answer. Collecting them takes the event loop some ten milliseconds. The clients that pushed longest ago go.
TELEMETRY_SERIES_MAX: Final = 10_000

# Characters of the name of a metric and of each of its labels. Names of topics have 249 at most.
TELEMETRY_NAME_CHARACTERS_MAX: Final = 256

# Attributes of a data point, and of what describes its client. Clients send four at most.
TELEMETRY_ATTRIBUTES_MAX: Final = 16

# Spans that wait until they are sent, at some 2 KB each. Beyond it the oldest are lost.
SPAN_QUEUE_MAX: Final = 4_096

# Spans of one request to a collector, and the milliseconds until those that wait are sent.
SPAN_BATCH_MAX: Final = 512
SPAN_SEND_EVERY_MS: Final = 1_000

# Seconds for one such request with its retries; a stop waits as long for the last one.
SPAN_EXPORT_SECONDS_MAX: Final = 5.0

# Traced Produce requests that wait for their replicas, of which followers are noted.
TRACED_WAITS_MAX: Final = 1_000

# Bytes of a compressed batch in whose first record a producer's trace is looked for: a larger one is not decompressed
# for it.
TRACED_BATCH_BYTES_MAX: Final = 64 * 1024

# Bytes of its records: gzip takes some half a millisecond of the event loop for as many.
TRACED_RECORDS_BYTES_MAX: Final = 128 * 1024
