"""The bounds of a turn of the event loop, each with its reason; those of all other parts are in `limits`."""

from __future__ import annotations

from typing import Final

# A turn of the event loop that takes longer is counted, and the request that took it is named in the log.
TURN_SECONDS_MAX: Final = 0.020
LONG_TURN_LINES_PER_MINUTE_MAX: Final = 10

# Characters of a client id in such a line: clients choose up to 32,767.
CLIENT_ID_CHARACTERS_LOGGED_MAX: Final = 256

# Lines about slow requests in a minute, and as many at once: a broker whose disk stalls is slow for all its clients.
SLOW_REQUEST_LINES_PER_MINUTE_MAX: Final = 60

# Bytes of each text that a client chose in such a line, which has five of them: together they fit into a line.
SLOW_REQUEST_TEXT_BYTES_MAX: Final = 160

# Time that the requests of one connection may take of a turn, after the first one: connections take turns.
CONNECTION_TURN_SECONDS_MAX: Final = 0.005

# The same of all connections of a listener together: the next one has its turn while less was taken. Reading, single
# requests and all else have the rest.
PIPELINED_SECONDS_PER_TURN_MAX: Final = 0.005

# Requests of one read that are answered at once. More than these wait for the connection's turn.
PIPELINED_REQUESTS_AT_ONCE_MAX: Final = 16

# Bytes of a request that is answered at once, whatever waits elsewhere: a hundred short elements. A longer one, but for
# Produce, waits for its connection's turn, and may take several.
REQUEST_BYTES_AT_ONCE_MAX: Final = 2 * 1024

# Requests that are found in received bytes at a time: a microsecond each, and a read has up to 20,000 of them.
FRAMES_SPLIT_AT_ONCE_MAX: Final = 1024

# The thread for work that takes more than a millisecond of a processor: large requests and answers, batches that have
# to be decompressed. One, because a second would only take turns with it and with the event loop.
LONG_WORK_THREADS_MAX: Final = 1

# Bytes of a request that is decoded within a turn: 3,000 short elements, some milliseconds. Produce and Fetch are not
# decoded into objects.
REQUEST_BYTES_DECODED_AT_ONCE_MAX: Final = 8 * 1024

# Elements of a large request that one turn answers: at 10 to 40 microseconds each, less than ten milliseconds.
REQUEST_ELEMENTS_PER_TURN_MAX: Final = 250

# Topic names and partitions of a consumer group and of the heartbeat that changes it, at three microseconds each. A
# change of a group with more is planned in the thread.
GROUP_NAMES_PLANNED_AT_ONCE_MAX: Final = 1_000

# Bytes of the subscriptions of a classic group that are read within a turn, at some 30 nanoseconds each.
SUBSCRIPTION_BYTES_READ_AT_ONCE_MAX: Final = 64 * 1024

# Topics and partitions of a Produce or Fetch that is answered within a turn, at 5 to 20 microseconds a partition.
PARTITIONS_ANSWERED_AT_ONCE_MAX: Final = 2 * REQUEST_ELEMENTS_PER_TURN_MAX

# Partitions of a fetch session. It is made, and registered with its partitions to wait for records, within a turn. A
# client with more gets no session, and sends whole requests.
FETCH_SESSION_PARTITIONS_MAX: Final = 10_000

# Partitions of topics that a Metadata answer encodes within a turn, at six microseconds each. More are encoded in the
# thread, and kept.
PARTITIONS_ENCODED_AT_ONCE_MAX: Final = 1_000

# Runs of records in flight that a turn looks through for GET /queue-locks: two milliseconds. A share-partition has as
# many at most, and is looked through at once.
SHARE_RUNS_PER_TURN_MAX: Final = 10_000

# Locks and partitions of one answer of GET /queue-locks. With the longest names this is 600 KB of JSON, which take four
# milliseconds, and people read no more.
QUEUE_LOCKS_PER_ANSWER_MAX: Final = 1_000
QUEUE_PARTITIONS_PER_ANSWER_MAX: Final = 1_000

# Logs whose size is read, or whose old producers are forgotten, in one turn, at a microsecond each.
LOGS_LOOKED_AT_PER_TURN_MAX: Final = 2_000

# Bytes of the controller's changes that a broker reads within a turn: a thousand changes. A snapshot has all nodes.
CLUSTER_CHANGES_BYTES_READ_AT_ONCE_MAX: Final = 128 * 1024

# New partitions that the controller plans in one turn, at two microseconds each. A topic counts as many more, since it
# takes 60 microseconds.
PARTITIONS_PLANNED_PER_TURN_MAX: Final = 3_000
PARTITIONS_THAT_A_TOPIC_COUNTS: Final = 30

# Partitions that a broker opens and takes a role for in one turn, at 16 to 40 microseconds each. Their logs are there.
PARTITIONS_OPENED_PER_TURN_MAX: Final = 250

# As how many of these count a partition whose files are renamed away, and one whose log has to be made in that turn.
PARTITIONS_THAT_A_DELETION_COUNTS: Final = 2
PARTITIONS_THAT_A_NEW_LOG_COUNTS: Final = 15
# The same of a topic whose settings are read.
PARTITIONS_THAT_SETTINGS_COUNT: Final = 2

# Changes of the registry's nodes that become part of an image in one turn, at three microseconds each. Partitions of
# the topics that they change count too.
NODE_CHANGES_PER_TURN_MAX: Final = 1_000

# What of a client's batch is read within a turn, where its topic's settings ask for the records. The bytes count also
# decompressed, and a record takes a microsecond. Larger batches are read in a thread. Compressing takes more.
BATCH_BYTES_CHECKED_AT_ONCE_MAX: Final = 64 * 1024
BATCH_RECORDS_CHECKED_AT_ONCE_MAX: Final = 500
BATCH_BYTES_RECOMPRESSED_AT_ONCE_MAX: Final = 16 * 1024

# Bytes from which on decompressed records go to memory of their own from the kernel, which is given back at once. It
# needs not be cleared first, which would hold up all threads.
DECOMPRESSED_BYTES_OF_MALLOC_MAX: Final = 1024 * 1024
