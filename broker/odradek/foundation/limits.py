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

# Batches whose sequence numbers are kept per producer and partition to answer a duplicate with its old offset;
# Kafka's number, which bounds a client's max.in.flight.requests.per.connection.
PRODUCER_BATCHES_REMEMBERED: Final = 5
