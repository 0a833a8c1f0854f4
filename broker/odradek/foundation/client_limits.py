"""The bounds of clients and commands, each with its reason; those of all other parts are in `limits`."""

from __future__ import annotations

from typing import Final

# A client's pause before a retry. It is short at first, because most retriable errors end soon: a coordinator loads, a
# topic was just created. It doubles up to a second, so that retries do not overload a broken cluster.
CLIENT_RETRY_PAUSE_MS_MIN: Final = 20
CLIENT_RETRY_PAUSE_MS_MAX: Final = 1_000

# Seconds until a consumer logs again that brokers are away, doubled up to a minute. A reader of the log sees that it
# still tries, and a night without a broker is some hundred lines.
CLIENT_OUTAGE_LOG_SECONDS_MIN: Final = 10.0
CLIENT_OUTAGE_LOG_SECONDS_MAX: Final = 60.0

# Seconds of refusals by a coordinator until a client logs that it still tries. Coordinators refuse for a moment at each
# start and election. On a full disk they refuse until there is room.
CLIENT_REFUSALS_LOG_SECONDS: Final = 3.0

# Seconds between two checks for new topics and partitions, by a command that follows them. A user waits no longer than
# that, and each check is one small request. Kafka's consumers wait five minutes (metadata.max.age.ms).
TOPICS_CHECK_SECONDS: Final = 5.0

# Further tries for a topic that the broker does not know, within a client's call.
CLIENT_UNKNOWN_TOPIC_RETRIES_MAX: Final = 2
# How long brokers may answer that a topic does not exist until a consumer that reads it takes it as deleted. A broker
# that has just started, or gets a topic late, catches up within a second.
CLIENT_TOPIC_GONE_SECONDS: Final = 5.0

# Failed messages with their errors that an asynchronous producer keeps until its next flush; more are only counted. As
# many as its queue has by default.
PRODUCER_QUEUE_FAILURES_MAX: Final = 10_000
# How often a message without a key goes to another partition since its leader is lost, as Kafka 0.8 retries.
PRODUCER_MOVES_MAX: Final = 3
# The pause between two requests for metadata that changes, and how long it is asked for after brokers came or went. The
# election of leaders may take so long.
PRODUCER_METADATA_PAUSE_SECONDS: Final = 0.5
PRODUCER_BROKERS_SETTLE_SECONDS_MAX: Final = 5.0
# Topics that one line names, when messages of a producer that was not closed are lost.
PRODUCER_TOPICS_NAMED_MAX: Final = 10
# How long the end of a program may wait for messages of a producer that was not closed.
PRODUCER_QUEUE_EXIT_SECONDS_MAX: Final = 10.0

# How long a synchronous client waits for a cancelled call to end, and at its own end for its connections to close. Both
# take milliseconds, unless a broker does not answer.
BLOCKING_END_SECONDS_MAX: Final = 10.0

# Groups of one request for offsets, and such requests at a time. An answer with all partitions of a hundred groups is
# some hundred kilobytes.
GROUPS_PER_OFFSET_FETCH_MAX: Final = 100
OFFSET_FETCHES_AT_ONCE_MAX: Final = 16

# How long the end of a client waits until a broker has noted it: a leave, last answers, an abort. A broker answers in
# milliseconds. Without it the broker does the same once the session, the lock or the transaction has timed out.
CLIENT_LAST_REQUESTS_SECONDS_MAX: Final = 3.0

# A consumer that shares partitions through ZooKeeper computes its share once changes have stopped for so long, or after
# so long at the latest. The start of a group with hundreds of members is then few passes for each.
CONSUMER_QUIET_SECONDS: Final = 0.075
CONSUMER_CHANGES_SECONDS_MAX: Final = 0.5
# Its first pause after a try to own partitions that others still own; they double up to rebalance.backoff.ms.
CONSUMER_REBALANCE_PAUSE_SECONDS_MIN: Final = 0.1
# How long a consumer waits while another one of its process reads the members of the group. With 500 members that is
# some milliseconds; one that ZooKeeper does not answer may take the session's timeout.
CONSUMER_READS_TOGETHER_SECONDS_MAX: Final = 1.0
# How long a rebalance waits for a program to finish the record that it works on. Kafka's own consumers try for 8 s to
# take over, so ours must have released within that time.
CONSUMER_RECORD_IN_HAND_SECONDS_MAX: Final = 2.0
# How long it waits for the logs' first or last offsets until it begins with the partitions that have one. A leader that
# works answers within milliseconds. The pause until the others are asked again is as of Kafka's clients for leaders.
CONSUMER_FIRST_OFFSETS_SECONDS_MAX: Final = 2.0
CONSUMER_FIRST_OFFSETS_PAUSE_SECONDS: Final = 0.5

# Bytes of an answer that a client accepts: what librdkafka allows (receive.message.max.bytes). It also detects a peer
# that is not a Kafka broker: the letters of an HTTP answer, read as a size, are much larger.
CLIENT_RESPONSE_BYTES_MAX: Final = 100_000_000

# Bytes of records that a producer adds in one step of a call with many. A step is done whole or not at all, and runs on
# the event loop without a pause: a megabyte takes some milliseconds.
PRODUCER_SLICE_BYTES_MAX: Final = 1024 * 1024

# Short keys whose partition a producer caches, since keys mostly repeat: two megabytes at most.
PRODUCER_KEYS_REMEMBERED_MAX: Final = 10_000

# Windows of partitions whose counts an audited producer keeps, at some 300 bytes each: three megabytes. One that was
# published leaves first; records that follow for it are counted in another part.
AUDIT_WINDOWS_MAX: Final = 10_000

# Seconds that a producer waits at its end for its last counts to be written; without them its session looks dead.
AUDIT_CLOSE_SECONDS_MAX: Final = 10.0

# Topics or groups whose settings a client asks for by one request: a few keys of so many are an answer of some hundred
# kilobytes.
CONFIG_RESOURCES_PER_REQUEST_MAX: Final = 1000

# Seconds for which one broker that does not answer delays a request to all brokers.
BROKER_ANSWER_SECONDS_MAX: Final = 10.0

# Bytes of an answer about the locks of a queue: twice what a broker sends, with the longest names.
QUEUE_LOCKS_BYTES_MAX: Final = 2 * 1024 * 1024

# Seconds for which a health check waits for a broker or the controller. Those that answer do so in milliseconds.
HEALTH_ANSWER_SECONDS_MAX: Final = 5.0

# Bytes of a line that `odradek produce` reads. A longer one is mostly from a file that is not text.
INPUT_LINE_BYTES_MAX: Final = 64 * 1024 * 1024

# Deliveries that a measurement times at once; those beyond are not timed.
TIMED_DELIVERIES_MAX: Final = 10_000

# Requests that a client has under way on one connection. The broker accepts more, but more are not faster.
CLIENT_REQUESTS_IN_FLIGHT_MAX: Final = 64

# How long a shell waits for the names of topics and groups when the tab key is pressed. A longer wait looks like a
# hang.
COMPLETION_SECONDS_MAX: Final = 1.0

# Bytes of a client.properties or a profile: a hundred times what such a file has. A wrong file (a log, a device) is
# refused and not read to its end.
CLIENT_PROPERTIES_BYTES_MAX: Final = 1 << 20

# Bytes of a file with saved offsets: some 150 for a partition, so 400,000 partitions, which are read at once.
SAVED_OFFSETS_BYTES_MAX: Final = 64 << 20

# How long `odradek start NAME` waits until the broker serves. A large folder is recovered after a `kill -9`; the start
# then continues in the background, and another `odradek start NAME` waits again.
NAMED_BROKER_START_SECONDS_MAX: Final = 60.0

# How long `odradek stop NAME` waits for the end: a controlled stop flushes every log.
NAMED_BROKER_STOP_SECONDS_MAX: Final = 60.0

# How long a broker with a name tries to hold its lock. A command that asks whether it runs holds it for microseconds.
NAMED_BROKER_LOCK_SECONDS_MAX: Final = 1.0

# Bytes of the log of a broker with a name at which a start begins another file. The one before is kept, and no more.
NAMED_BROKER_LOG_BYTES_MAX: Final = 16 << 20

# How far brokers may be apart before anything moves for it: a share of what each should have. Below a twentieth, logs
# that grow and are deleted would move partitions to and fro.
BALANCE_TOLERANCE: Final = 0.05
# Bytes on a disk, and bytes a second, that are no difference: neither fills a disk nor loads a broker.
BALANCE_DISK_BYTES_MIN: Final = 256 << 20
BALANCE_RATE_BYTES_MIN: Final = 256 << 10
# The share of the tolerance that a move gains at least. Thousands of moves of tiny partitions level nothing.
BALANCE_GAIN_SHARE_MIN: Final = 0.01
# The share of a broker's volumes that a plan leaves free. What leaves a broker is not counted, since it leaves late.
BALANCE_FREE_SHARE_MIN: Final = 0.1
# Replicas that one step of the planner compares, and those that it looks at to find them. Plans are hardly better with
# more, and ten thousand partitions are planned within seconds.
BALANCE_CANDIDATES_MAX: Final = 16
BALANCE_ROWS_MAX: Final = 512
# Replicas whose bytes are in the same step of this are alike where replicas are counted: either is copied at once.
BALANCE_SIZE_STEP_BYTES: Final = 16 << 20
# Steps of one plan. The next plan continues from there.
BALANCE_STEPS_MAX: Final = 50_000
# Partitions that a rebalance moves at a time, and their bytes. A batch is soon over when it is to be stopped, and a
# broker reads few old segments at a time.
BALANCE_BATCH_MOVES_MAX: Final = 100
BALANCE_BATCH_BYTES_MAX: Final = 64 << 30
# Groups whose committed offsets show what is read. Each is a request at both samples; more groups rarely read more.
BALANCE_GROUPS_MAX: Final = 500

# What a schema registry may make a consumer keep or wait for. A schema of 4 MiB has some ten thousand fields. A
# topic has one schema or a few; records of a stranger may name any ids.
SCHEMA_BYTES_MAX: Final = 4 * 1024 * 1024
SCHEMA_REFERENCES_MAX: Final = 100
# Bytes of .proto text in a schema with all that it refers to, and how deep its messages are. The text is read in less
# than a second. protoc refuses messages below 32 levels.
PROTO_TEXT_BYTES_MAX: Final = 512 * 1024
PROTO_TEXT_DEPTH_MAX: Final = 32
SCHEMAS_KEPT_MAX: Final = 1_000
# Requests to the registry at a time, and how long a schema that cannot be had is not asked for again.
SCHEMA_READS_AT_ONCE_MAX: Final = 8
SCHEMAS_MISSING_KEPT_SECONDS: Final = 5.0
# Messages of `odradek consume` about keys and values that cannot be decoded. More would hide the records; the rest is
# counted.
DECODE_FAILURES_SHOWN_MAX: Final = 10
