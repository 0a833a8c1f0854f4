"""Every bound of the broker that is not a setting of Kafka's, each with its reason.

A queue, retry, cache or buffer without a row here is a bug. Those that users may change are settings instead
(`foundation.settings`), under Kafka's key.
"""

from __future__ import annotations

from typing import Final

# Requests of one connection that may wait for their answers at once. Kafka handles one at a time; a client pipelines
# five by default and perf tools a few hundred. Reading pauses at the bound, so TCP pushes back on the sender.
REQUESTS_IN_FLIGHT_PER_CONNECTION_MAX: Final = 256

# Bytes of answers that one connection may have unsent before its requests are no longer read: a slow reader costs
# this much memory and no more.
RESPONSE_BYTES_UNSENT_PER_CONNECTION_MAX: Final = 8 * 1024 * 1024

# A frame is read into one buffer of its announced size only after this many bytes of it have arrived: a hostile
# size alone reserves no memory.
FRAME_BYTES_BEFORE_RESERVE: Final = 64 * 1024

# A large frame's memory is reserved in steps of at most this many times what has arrived of it: a peer that announces
# a size and stalls holds no more than this multiple of what it sent. Frames up to 1 MiB need one step.
FRAME_RESERVE_FACTOR: Final = 16

# The buffer that all connections of an event loop receive into: the most that one read can bring, held once.
RECEIVE_BUFFER_BYTES: Final = 256 * 1024

# Array elements of all depths in one request that is decoded into objects (Produce is not): some two seconds of work
# and a few hundred megabytes at the worst, while the largest requests of real clients stay below a tenth of it.
REQUEST_ARRAY_ELEMENTS_MAX: Final = 1_000_000

# Batches whose sequence numbers are kept per producer and partition to answer a duplicate with its old offset;
# Kafka's number, which bounds a client's max.in.flight.requests.per.connection.
PRODUCER_BATCHES_REMEMBERED: Final = 5

# What one compressed batch may grow to where records are read (compacted topics, the coordinators' topics, tools,
# clients). Kafka has no bound, and a megabyte of gzip can hold a gigabyte: a hostile producer could end the broker.
DECOMPRESSED_BATCH_BYTES_MAX: Final = 256 * 1024 * 1024

# Producer ids remembered per partition besides those with an open transaction. Kafka bounds them by time only, so
# a client that asks for a new id per batch grows the broker without end; here the oldest are forgotten first, as
# if they had expired. Each takes about 600 bytes.
PRODUCER_IDS_PER_PARTITION_MAX: Final = 50_000

# A client's pause before another try: short at first, since most errors worth another try are over in a moment
# (a coordinator that loads, a topic just made), doubled up to a second so that a broken cluster is not hammered.
CLIENT_RETRY_PAUSE_MS_MIN: Final = 20
CLIENT_RETRY_PAUSE_MS_MAX: Final = 1_000

# Further tries for a topic that the broker does not know, within a client's call.
CLIENT_UNKNOWN_TOPIC_RETRIES_MAX: Final = 2

# Bytes of an answer that a client accepts: what librdkafka allows (receive.message.max.bytes). Also tells that what
# answers is no Kafka broker: the letters of an HTTP answer, read as a size, are far above it.
CLIENT_RESPONSE_BYTES_MAX: Final = 100_000_000

# Requests that a client has under way on one connection; the broker takes more, but nothing is won by it.
CLIENT_REQUESTS_IN_FLIGHT_MAX: Final = 64
