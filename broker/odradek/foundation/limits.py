"""Every bound of the broker that is not a setting of Kafka's, each with its reason.

A queue, retry, cache or buffer without a row here is a bug. Those that users may change are settings instead
(`foundation.settings`), under Kafka's key. Those of one part each are in `client_limits`,
`machine_limits`, `mirror_limits` and `turn_limits`.
"""

from __future__ import annotations

from typing import Final

# Requests of one connection that may wait for their answers at once. Kafka handles one at a time; a client
# pipelines five by default and perf tools a few hundred. Reading pauses at the bound, so TCP pushes back on
# the sender.
REQUESTS_IN_FLIGHT_PER_CONNECTION_MAX: Final = 256

# Unsent bytes of answers at which a connection's requests are no longer read and its file slices no longer loaded.
# A slow reader takes this much memory and one part of a slice, no more.
RESPONSE_BYTES_UNSENT_PER_CONNECTION_MAX: Final = 1024 * 1024

# A large file slice is loaded and sent in parts of this size. The fixed cost of a part is small at this size, and the
# part still fits the processor's cache and memory that malloc keeps. Measured on loopback: 0.67 CPU s per GB, against
# 0.8 with half of it and 1.0 with four times as much.
SLICE_PART_BYTES: Final = 128 * 1024

# A slice below this is read and joined with what surrounds it even where sendfile is chosen: two system
# calls cost more than copying it.
SENDFILE_BYTES_MIN: Final = 16 * 1024

# Bytes of one sendfile call. The kernel mostly stops earlier, where the socket is full. A call takes some hundreds of
# microseconds at most.
SENDFILE_BYTES_MAX: Final = 1024 * 1024

# Bytes of answers that one connection may send in one turn of the event loop. A fast reader must not keep other
# connections waiting.
SENT_BYTES_PER_TURN_MAX: Final = 1024 * 1024
# What each part of an answer counts besides its bytes, since it is a system call: 2,000 of them are a turn.
SENT_PART_BYTES: Final = 512

# Requests of one connection that one turn of the event loop answers. With tiny requests, a busy connection delays the
# others by a few milliseconds.
REQUESTS_PER_TURN_MAX: Final = 128

# Connections accepted in one turn of the event loop, for the same reason.
ACCEPTS_PER_TURN_MAX: Final = 16

# Records of one refused batch that its answer names: a client shows a few, and an answer may not outgrow its request.
RECORD_ERRORS_PER_BATCH_MAX: Final = 1000

# The pause after accept() failed for lack of descriptors or memory; the connections wait in the kernel's queue.
ACCEPT_RETRY_PAUSE_SECONDS: Final = 0.1

# Connections that the kernel completes before they are accepted. Kafka's socket.listen.backlog.size is 50, which drops
# connections when many clients start at once.
LISTEN_BACKLOG_DEFAULT: Final = 512

# Log lines about refused or disconnected peers, for each kind.
LOG_LINES_PER_MINUTE_MAX: Final = 20

# Log lines about created and deleted topics and changed settings: some 150 KB a minute at most. A script may create
# hundreds of topics in a minute, and each one is logged.
CHANGE_LINES_PER_MINUTE_MAX: Final = 1000

# Bytes of one line in the log, its end included. Names of clients' resources may have 32 KB, values of settings more.
LOG_LINE_BYTES_MAX: Final = 2048

# Lines in a minute from one place in the code, and those with a trace for one failure there: 2 MB at most. A start with
# thousands of partitions logs less of a kind. Lines about peers have the smaller bound above.
LOG_LINES_OF_KIND_PER_MINUTE_MAX: Final = 1000
LOG_TRACES_OF_KIND_PER_MINUTE_MAX: Final = 20

# Lines of one trace. The beginning and the end say most.
LOG_TRACE_LINES_MAX: Final = 200

# A frame gets one buffer of its announced size only after this many bytes of it have arrived. An announced size alone
# reserves no memory.
FRAME_BYTES_BEFORE_RESERVE: Final = 64 * 1024

# The first memory that a large frame gets of its own. Most frames of producers fit, and are received without a copy. A
# larger frame gets twice as much whenever it is full. A peer that announces a size and stalls holds no more than that.
# While the memory of requests is short, a frame begins with twice what has arrived.
FRAME_BYTES_RESERVED_FIRST: Final = 1024 * 1024

# Memory of requests over all connections of a process, where queued.max.request.bytes sets no bound: Kafka has none
# then. It is at least socket.request.max.bytes. From half of it on, a connection is read only while it holds less than
# its share (`network.request_memory`).
REQUEST_BYTES_TOTAL_MAX: Final = 128 * 1024 * 1024

# The smallest share: requests up to it are always read, so that heartbeats and the like never wait.
REQUEST_BYTES_PER_CONNECTION_MIN: Final = 16 * 1024

# Pending requests below this size are not counted: with the bound on those of a connection, one megabyte.
REQUEST_BYTES_COUNTED_MIN: Final = 4 * 1024

# How long a request may take to arrive while that memory is short. Afterwards its connection is closed, or peers that
# stall would keep the memory. A megabyte at 1 Mbit/s takes 8 s.
REQUEST_SECONDS_WHILE_SHORT: Final = 10.0

# The request that is read out of turn while memory is short may take longer at this rate: 100 MB take seven minutes.
REQUEST_BYTES_PER_SECOND_WHILE_SHORT_MIN: Final = 256 * 1024

# The buffer that all connections of an event loop receive into: the most bytes of one read, held once.
RECEIVE_BUFFER_BYTES: Final = 256 * 1024

# Bytes of one TLS handshake that a peer may send. A chain of certificates takes some kilobytes, the largest known a few
# tens.
TLS_HANDSHAKE_BYTES_MAX: Final = 128 * 1024

# Encrypted bytes of one read, and clear bytes of one write. OpenSSL's buffer keeps a third more than the largest read:
# with twice as much, a busy connection holds 143 KiB instead of 100. Larger writes leave the processor's cache.
TLS_BYTES_PER_READ: Final = 32 * 1024
TLS_BYTES_PER_WRITE: Final = 64 * 1024

# Steps of TLS handshakes in one turn of the event loop: each takes up to 1.2 ms, with a key of RSA. A request needs
# several turns, and a new connection some more.
HANDSHAKE_STEPS_PER_TURN_MAX: Final = 2

# TLS handshakes of one listener that may be open at once, at some 40 KiB each. An honest one takes milliseconds.
HANDSHAKES_OPEN_MAX: Final = 512

# How long a TLS handshake may take: slow lines need a second or two.
HANDSHAKE_SECONDS_MAX: Final = 10.0

# How long a client may take from its connection to the end of its login. A token of OAuth may come from a slow server
# before; the login itself is a few round trips.
LOGIN_SECONDS_MAX: Final = 30.0

# Passwords of callers of --admin that may wait for their check, which takes milliseconds of a thread each. Monitors ask
# a few times a minute. More at once are attempts to guess a password, and are refused for now.
HTTP_PASSWORD_CHECKS_WAITING_MAX: Final = 16

# Connections to --admin. aiohttp waits for a request without end; beyond the bound the oldest connection is closed.
# Monitors have a few, with a request that takes milliseconds.
HTTP_CONNECTIONS_MAX: Final = 256

# Delegation tokens of a cluster: each is a node of the registry and some 500 bytes in every broker.
DELEGATION_TOKENS_MAX: Final = 10_000

# Tokens that have ended and are removed with one write of another.
ENDED_TOKENS_REMOVED_MAX: Final = 100

# Array elements of all depths in one request that is decoded into objects (Produce is not). The worst case is some two
# seconds of work and a few hundred megabytes. The largest requests of real clients stay below a tenth of the bound.
REQUEST_ARRAY_ELEMENTS_MAX: Final = 1_000_000

# Batches whose sequence numbers are kept per producer and partition to answer a duplicate with its old
# offset; Kafka's number, which bounds a client's max.in.flight.requests.per.connection.
PRODUCER_BATCHES_REMEMBERED: Final = 5

# Producers of a partition whose refused batches are remembered, and for how long. A client that retries them does so
# within a few seconds; one that does not has a new epoch long before.
REFUSED_PRODUCERS_MAX: Final = 1_000
REFUSED_BATCHES_SECONDS_MAX: Final = 30.0

# The largest size of one decompressed batch for code that reads records (compaction, coordinators, tools, clients).
# Kafka has no bound, and a megabyte of gzip can hold a gigabyte: a hostile producer could end the broker.
DECOMPRESSED_BATCH_BYTES_MAX: Final = 256 * 1024 * 1024

# Producer ids remembered per partition besides those with an open transaction. Kafka bounds them by time only, so a
# client that takes a new id per batch grows a broker without end. Here the oldest expire first. Each takes up to a
# kilobyte.
PRODUCER_IDS_PER_PARTITION_MAX: Final = 20_000

# A broker reads the groups in ZooKeeper for its metrics: so many groups and offsets at most, with such a pause. That is
# a few dozen requests for a thousand offsets, and no more than one scrape in fifteen seconds would cause.
ZOOKEEPER_GROUPS_PAUSE_SECONDS: Final = 15.0
ZOOKEEPER_GROUPS_MAX: Final = 1_000
ZOOKEEPER_GROUP_PARTITIONS_MAX: Final = 20_000
# It stops when metrics were not asked for during this time: five scrapes of a minute.
ZOOKEEPER_GROUPS_UNASKED_SECONDS_MAX: Final = 300.0
# How long a request about such a group waits for the registry. Clients wait for an answer of theirs for 30 s or so, and
# the other groups of the answer do not depend on it.
ZOOKEEPER_GROUPS_READ_SECONDS_MAX: Final = 5.0

# What one step of a move between log directories copies, in a thread. Throttles wait between steps.
LOG_COPY_PIECE_BYTES: Final = 1 << 20

# What such a move may copy at its end in one turn of the event loop: a millisecond's work, with the newest index.
LOG_COPY_REMAINDER_BYTES_MAX: Final = 256 << 10

# Partitions that a broker does not host yet and whose log directory was chosen (AlterReplicaLogDirs). A broker with
# more of them forgets the oldest.
LOG_DIRECTORIES_CHOSEN_MAX: Final = 10_000

# Index entries of a segment that are kept in memory until they are written in one call. 256 entries cover a megabyte of
# log, so index writes cost little beside the appends. A thousand busy partitions hold some 20 MB of them.
INDEX_ENTRIES_UNWRITTEN_MAX: Final = 256

# Positions in a segment that readers are likely to ask for next, offset to position: enough for a few hundred
# consumers at the tail. A reader that is not remembered costs an index search.
READ_POSITIONS_REMEMBERED_MAX: Final = 256

# Closed segments whose files stay open for readers, over all partitions; those opened longest ago are closed
# first. Each holds up to three descriptors. The segment that is written to stays open besides.
CLOSED_SEGMENTS_OPEN_MAX: Final = 256

# Fetches that wait for records at once, over all connections; one more is answered at once with what there
# is. Each costs about a kilobyte with its timer.
FETCHES_WAITING_MAX: Final = 65_536

# Threads for work that may wait for a disk: deletion, checkpoints, and reads that are not in the page cache.
BLOCKING_THREADS_MAX: Final = 4

# Appends of one partition that wait for a flush, each with an offset of its own; more are counted together with the
# last. Answers bound those that are waited for, but acks=0 waits for nothing and a disk may take seconds.
APPENDS_UNCOMMITTED_PER_PARTITION_MAX: Final = 10_000

# Requests that wait for other replicas (acks=all, deletions of records). Each is a few hundred bytes. Beyond the bound
# clients get a timeout error, and retry.
ACKNOWLEDGEMENTS_WAITING_MAX: Final = 100_000

# Bytes of fetched records that a follower appends in one turn of the loop: about a millisecond.
FETCHED_BYTES_PER_TURN_MAX: Final = 2 * 1024 * 1024

# Logs that a broker creates for new partitions in one turn of the loop: some milliseconds on an idle disk. A topic of
# thousands would take seconds on a busy one.
LOGS_MADE_PER_TURN_MAX: Final = 16

# How long a leader's leadership counts as confirmed while the registry is silent. It starts when every broker that
# could have been elected has fetched as a follower. replica.fetch.wait.max.ms comes on top, because an idle follower's
# fetch waits that long. Longer than pauses of a busy machine, much shorter than a session.
LEADERSHIP_CONFIRMED_SECONDS_MAX: Final = 1.5

# In-sync sets that a leader proposes in one request, which a turn of the loop puts together, and one decides.
IN_SYNC_PROPOSALS_PER_REQUEST_MAX: Final = 500

# Bytes that must be free before a log directory that was full accepts writes again. They hold an append of each of a
# few clients, and the files of some new partitions. With less the disk would be full again within the same second.
LOG_DIRECTORY_ROOM_BYTES_MIN: Final = 4 * 1024 * 1024

# Threads that wait for fsync. They use no processor, and a file system's journal commits many requests together.
# Measured: closing 1,000 partitions took 8.2 s with one thread, 0.5 s with 4 and 0.3 s with 16.
FLUSH_THREADS_MAX: Final = 16

# How long a retention policy of the operator's may decide on one log. A sum over the segments of a large log takes
# milliseconds, and a question to another system some seconds.
RETENTION_POLICY_SECONDS_MAX: Final = 10.0

# Bytes of records that a coordinator puts into one batch of its internal topic, unless one change alone is larger.
# It is below the smallest max.message.bytes in use, and one append serves thousands of commits.
COORDINATOR_BATCH_BYTES_MAX: Final = 512 * 1024

# Bytes of records that may wait to be written to one partition of a coordinator's internal topic. Beyond it clients
# get an error that they retry: a slow disk or replica must not fill the memory.
COORDINATOR_WAITING_BYTES_MAX: Final = 64 * 1024 * 1024

# Subtopologies of a Kafka Streams application. Each has its own tasks, and an application has some dozens at most. The
# numbers of partitions are found in rounds, so their time grows with the square of this.
STREAMS_SUBTOPOLOGIES_MAX: Final = 1_000

# Names of internal topics that could not be made, and how long a heartbeat says why. They are tried again after that.
INTERNAL_TOPIC_FAILURES_MAX: Final = 1_000
INTERNAL_TOPIC_FAILURE_SECONDS_MAX: Final = 60.0

# Settings, quotas, credentials and reassignments that one request may change, as in Kafka: they are written together.
CHANGES_PER_REQUEST_MAX: Final = 10_000

# Partitions that one CreateTopics or CreatePartitions request may create, as in Kafka. More in one registry write would
# delay all other writes.
NEW_PARTITIONS_PER_REQUEST_MAX: Final = 10_000

# Transactions whose verification waits for one coordinator. Each holds up the connection of its producer, so this is
# more than the connections of most brokers; beyond it producers try again.
VERIFICATIONS_WAITING_MAX: Final = 20_000

# Transactions in one request to a coordinator: it answers once the last one is in its log.
VERIFICATIONS_PER_REQUEST_MAX: Final = 1000

# Requests for one key of a coordinator (such as a group) that may wait while a change of that key is being written.
# A member sends one heartbeat at a time, so this is more members than a group can well have.
COORDINATOR_REQUESTS_WAITING_MAX: Final = 20_000

# Protocols that a member of a classic group may offer. The group compares those of all members in each rebalance, and
# keeps them. Consumers have one for each of their assignors, Kafka Connect three.
GROUP_PROTOCOLS_PER_MEMBER_MAX: Final = 100

# Markers of ended transactions in one request to a leader, counted as transactions. An entry takes 40 bytes, and 10 for
# each partition, and the leader appends each marker by itself: more would hold up those that come next.
MARKERS_PER_REQUEST_MAX: Final = 1000

# Transactional ids whose expiry one batch writes: its tombstones stay well below the bound of a batch.
TRANSACTIONAL_IDS_EXPIRED_PER_BATCH_MAX: Final = 1000

# Transactions past their timeout that are aborted at once; the rest follow. Their records share batches of the log.
TRANSACTIONS_ABORTED_TOGETHER_MAX: Final = 1000

# How long a write to the transaction log may wait for replicas. The time in which the controller removes slow ones from
# the in-sync set comes on top. Clients wait 30 seconds for an answer by default, and ask again.
TRANSACTION_WRITE_MS_MAX: Final = 5000

# Requests that one connection between brokers may have under way; a sender beyond it waits.
OUTBOUND_REQUESTS_IN_FLIGHT_MAX: Final = 64

# Characters of a topic pattern that a consumer group's member may subscribe to: topic names have 249 at most.
TOPIC_PATTERN_LENGTH_MAX: Final = 4096

# Topic patterns kept compiled, and results of matching kept, at about 10 KB each.
TOPIC_PATTERNS_REMEMBERED: Final = 1000

# Faults that a test may have in force at once on a broker started for tests.
TESTING_FAULTS_MAX: Final = 1000

# Record lookups for the age of group lag in one scrape of /metrics; the rest waits for the next scrape. A lookup costs
# some ten microseconds, and positions that do not move are remembered.
LAG_LOOKUPS_PER_SCRAPE_MAX: Final = 1000

# Samples of /metrics that are written at a stretch, at 5 to 10 microseconds each; clients have their turn in between.
SAMPLES_PER_EXPOSITION_PART_MAX: Final = 500

# Partitions of one POST /record-times. A caller with more sends several requests, and clients have their turn between.
RECORD_TIMES_PER_REQUEST_MAX: Final = 1000

# Bytes of one POST /record-times: as many partitions with the longest names. Parsing JSON holds up all threads, with a
# megabyte for 20 ms.
RECORD_TIMES_BYTES_MAX: Final = 300 * 1024

# Ages of lag that are remembered from scrape to scrape.
LAG_TIMES_REMEMBERED_MAX: Final = 100_000

# Changes of the registry that the active controller keeps for the brokers that follow it, at some 200 bytes each. A
# broker that is further behind gets a snapshot.
CLUSTER_CHANGES_KEPT_MAX: Final = 100_000

# States of partitions in one write to the registry, at some 200 bytes each.
PARTITION_STATES_PER_WRITE_MAX: Final = 1_000

# Changes in one answer, which is written and read in one turn: some milliseconds. Further ones follow at once.
CLUSTER_CHANGES_PER_ANSWER_MAX: Final = 2_000

# Paths whose watches are being armed in ZooKeeper at once, two requests each. With the requests of
# zookeeper.max.in.flight.requests they stay below what kazoo's wake-up pipe holds (some 270), so that asking never
# blocks the event loop.
REGISTRY_WATCHES_ARMED_AT_ONCE_MAX: Final = 32

# Bytes of one write to ZooKeeper: its jute.maxbuffer is 1 MiB by default. A larger request ends the connection, which
# all requests share.
REGISTRY_WRITE_BYTES_MAX: Final = 1_000_000

# Nodes that one request to ZooKeeper reads. Other requests wait a few milliseconds for it, in the server and here.
REGISTRY_READS_PER_REQUEST_MAX: Final = 500

# The longest that a controller lets a broker wait for a change. An answer without changes shows that it is alive.
FOLLOW_WAIT_MS_MAX: Final = 30_000

# How long a broker that stops waits until the others know the new leaders. Each knows within milliseconds unless it
# hangs; the end of its session then removes it.
LEAVING_WAIT_MS_MAX: Final = 5_000

# How long a request for the controller waits for an active one, below the 30 s that clients wait for an answer.
CONTROLLER_WAIT_MS_MAX: Final = 25_000

# Pauses between two attempts to reach the active controller: at first, and at most.
CONTROLLER_RETRY_MS_MIN: Final = 20
CONTROLLER_RETRY_MS_MAX: Final = 1_000

# An internal topic's active segment is closed for compaction when it has these bytes and is so many times as large as
# all before. A restart reads a megabyte in a fraction of a second.
INTERNAL_ROLL_BYTES_MIN: Final = 1024 * 1024
INTERNAL_ROLL_GROWTH: Final = 3

# Bytes of a log that compaction reads at once, at least: its loops over many batches at once pay from a few megabytes
# on. log.cleaner.io.buffer.size, which is 512 KiB by default, may ask for more.
COMPACTION_WINDOW_BYTES_MIN: Final = 4 * 1024 * 1024

# Decisions of the authorizer that are kept until the ACLs change: about 3 MB. Any decision costs microseconds.
AUTHORIZATION_DECISIONS_MAX: Final = 10_000

# Nodes of ZooKeeper whose access lists are read at once, at the start of a controller: other requests must not wait
# behind them.
REGISTRY_NODES_CHECKED_AT_ONCE_MAX: Final = 4

# Paths of open nodes that one line of the log names; the others are counted.
OPEN_NODES_NAMED_MAX: Final = 10

# Users of a mechanism whose salts and iterations are counted, so that unknown users can look alike. Each costs some
# microseconds, once after a change of users. Beyond it the others are left out, which changes the shares a little.
LOOKS_OF_USERS_COUNTED_MAX: Final = 5000

# Users whose client ids are listed at once when the registry is loaded, one request each.
USERS_LISTED_TOGETHER_MAX: Final = 64

# ACLs that one request may create or delete, as in Kafka: they are written together.
ACLS_CHANGED_PER_REQUEST_MAX: Final = 10_000

# Lines about denied operations in a minute, and as many about allowed ones: a client may try thousands of times in a
# second.
AUDIT_LINES_PER_MINUTE_MAX: Final = 600

# Characters of a name in such a line. Topics' names have 249 at most, and those of groups have no bound.
AUDIT_NAME_CHARACTERS_MAX: Final = 256

# Topics that a connection remembers as readable, until the ACLs change. A consumer of more asks the authorizer again.
AUTHORIZED_TOPICS_PER_CONNECTION_MAX: Final = 10_000

# Users and clients whose use of a quota is measured, for each kind of quota: about a kilobyte each. Beyond it the one
# that was looked up longest ago is forgotten, because clients choose their ids.
QUOTA_METERS_MAX: Final = 10_000

# The longest time for which a client is throttled at once. Apache Kafka has no bound on bytes, so one request may mute
# its connection for a day. Shorter than connections.max.idle.ms: nothing is read from a muted connection, and so a
# closed one is not noticed.
CLIENT_THROTTLE_MS_MAX: Final = 300_000

# A throttled connection is paused in steps of at most this time. After each one its quota and its peer are looked at
# again.
MUTE_STEP_SECONDS: Final = 1.0

# Connections that are held before they are closed because their address connects too fast. Each has a file descriptor;
# beyond it the oldest is closed at once.
CONNECTIONS_HELD_MAX: Final = 1_000

# Users and client ids with a series of their own in /metrics, for each kind of quota: those that waited longest.
QUOTA_CLIENTS_PER_SCRAPE_MAX: Final = 100

# How long a state of a share-partition is asked for until its coordinator answers. Members wait for it, and their own
# requests take 30 s at most.
SHARE_STATE_SECONDS_MAX: Final = 15.0

# States of one share group that are asked for at once, when a topic of many partitions is new to the group.
SHARE_STATES_AT_ONCE_MAX: Final = 16

# When a group coordinator asks again for states that it has no answer about, as Kafka's
# group.share.initialize.retry.interval.ms.
SHARE_STATE_RETRY_SECONDS: Final = 30.0

# Records of one share-partition that are on their way to a dead-letter topic together, and the bytes of a batch of
# them. One record alone may have more. Those that follow wait in the share-partition, as records in flight.
DEAD_LETTERS_AT_ONCE_MAX: Final = 500
DEAD_LETTER_BATCH_BYTES_MAX: Final = 1024 * 1024

# Records of one share-partition that wait for their dead letters, above which those are left out that retention has
# deleted since. Twice what share.partition.max.record.locks allows.
DEAD_LETTERS_WAITING_MAX: Final = 20_000

# Batches of dead letters that a broker writes at once, and those that it reads originals for.
DEAD_LETTER_BATCHES_AT_ONCE_MAX: Final = 16

# How long the replicas of a dead-letter topic may take for one batch, before it is written again.
DEAD_LETTER_WRITE_MS_MAX: Final = 10_000

# The largest batch, decompressed, whose records are copied to a dead-letter topic: others leave their origin only.
DEAD_LETTER_ORIGINAL_BYTES_MAX: Final = 16 * 1024 * 1024

# Runs of records in flight that one scrape of /metrics looks at, to count those that are acquired: a millisecond for
# each ten thousand.
SHARE_RUNS_PER_SCRAPE_MAX: Final = 50_000

# Groups whose dead letters are counted apart; beyond it the one that was counted first is forgotten.
DEAD_LETTER_GROUPS_COUNTED_MAX: Final = 1_000
