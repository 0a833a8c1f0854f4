"""The bounds of the console, each with its reason; those of all other parts are in `limits`."""

from __future__ import annotations

from typing import Final

# Clusters of one console. Each has a connection per broker, and the slots below for itself.
CONSOLE_CLUSTERS_MAX: Final = 50
# How long the overview of all clusters waits for one of them: a person sees the others by then.
CONSOLE_CLUSTERS_WAIT_SECONDS: Final = 1.0

# Seconds for which all viewers share what was asked of the cluster. A page that looks again each five seconds shows
# nothing older than twice that.
CONSOLE_FACTS_SECONDS_MIN: Final = 4.0
# Transactions, moves, users, quotas and rights: few people look at them, and each asks every broker.
CONSOLE_ADMINISTRATION_SECONDS_MIN: Final = 10.0
# Transactions under way whose partitions are asked for: a request each. Further ones are listed without.
CONSOLE_TRANSACTIONS_DESCRIBED_MAX: Final = 100
# Partitions of a topic whose producers are asked for to find transactions that hang: a request each.
CONSOLE_HANGING_PARTITIONS_MAX: Final = 200
# Topics of mirrors that are read, and offsets at the end of each of their partitions.
CONSOLE_MIRROR_TOPICS_MAX: Final = 20
CONSOLE_MIRROR_OFFSETS_MAX: Final = 1_000
# The doctor asks each broker and group one by one, and its findings change slowly.
CONSOLE_FINDINGS_SECONDS_MIN: Final = 30.0
# Idle time after a refresh, as a multiple of the processor's time that it took here. Viewers of one fact take about a
# fiftieth of a processor so. What the brokers spend is not measured.
CONSOLE_REST_FACTOR: Final = 50

# Topics and groups of which details are kept for all viewers: those that are open in a browser.
CONSOLE_DETAILS_KEPT_MAX: Final = 256
# Groups that are asked for their offsets, and how many alone at a time. Further groups are listed without a lag.
CONSOLE_GROUPS_ASKED_MAX: Final = 2_000
CONSOLE_GROUPS_AT_ONCE_MAX: Final = 16
# Partitions of one group whose oldest unread record is looked at: a fetch each, of those that are furthest behind.
CONSOLE_WAITS_ASKED_MAX: Final = 20

# Rows of a table in one answer, by default and at most: 10,000 partitions are a hundred pages.
CONSOLE_ROWS_DEFAULT: Final = 50
CONSOLE_ROWS_MAX: Final = 500
# Members of one group in an answer, and partitions that the answer names of each.
CONSOLE_MEMBERS_SHOWN_MAX: Final = 500
CONSOLE_ASSIGNMENT_SHOWN_MAX: Final = 100
# Partitions with a problem that the overview lists; the others are counted.
CONSOLE_TROUBLED_SHOWN_MAX: Final = 100

# Records of one page, by default and at most.
CONSOLE_RECORDS_DEFAULT: Final = 50
CONSOLE_RECORDS_MAX: Final = 200
# Bytes of a value, a key and a header that a page of records shows. With 200 records that is some megabytes.
CONSOLE_VALUE_BYTES_MAX: Final = 8 * 1024
CONSOLE_KEY_BYTES_MAX: Final = 1024
CONSOLE_HEADER_BYTES_MAX: Final = 256
CONSOLE_HEADERS_MAX: Final = 32
# Bytes of the value of a record that is shown alone.
CONSOLE_WHOLE_VALUE_BYTES_MAX: Final = 512 * 1024
# Bytes of a key or a value that is decoded by its schema: Kafka's default bound of a record. Larger ones are hex.
CONSOLE_DECODED_BYTES_MAX: Final = 1024 * 1024
# Schemas that are read for one page, and the time for all of them. Bytes that only look like a header name any number.
CONSOLE_SCHEMAS_READ_MAX: Final = 50
CONSOLE_SCHEMAS_SECONDS_MAX: Final = 5.0
# Milliseconds for one schema: less than for a page, so that the reason of a failure is known, and kept for the next.
CONSOLE_SCHEMA_MS_MAX: Final = 4_000
# Rules of a file of masks, and topics for which is kept what they say.
CONSOLE_MASK_RULES_MAX: Final = 1_000
CONSOLE_MASK_TOPICS_KEPT_MAX: Final = 1_000
# Bytes of a key or a value of which fields are hidden; a larger one is hidden whole.
CONSOLE_MASKED_BYTES_MAX: Final = 1024 * 1024
# Bytes of fetched records that one page may take, and its time. A page of records of 10 MB each ends early.
CONSOLE_PAGE_BYTES_MAX: Final = 64 * 1024 * 1024
CONSOLE_PAGE_SECONDS_MAX: Final = 10.0
# One fetch for a page, a tail or a search, and one partition in it. A larger batch comes whole all the same.
CONSOLE_FETCH_BYTES_MAX: Final = 8 * 1024 * 1024
CONSOLE_FETCH_PARTITION_BYTES_MAX: Final = 1024 * 1024

# Pages of records, searches and tails at a time, over all viewers of a cluster. Each holds some megabytes of fetched
# records.
CONSOLE_READS_MAX: Final = 4
CONSOLE_SEARCHES_MAX: Final = 4
CONSOLE_TAILS_MAX: Final = 16
# Partitions that a search or a tail reads at a time: a search takes those of a large topic in turn.
CONSOLE_PARTITIONS_READ_MAX: Final = 16
# Matches and time of a search. 10 GB are read in a few minutes.
CONSOLE_MATCHES_DEFAULT: Final = 100
CONSOLE_MATCHES_MAX: Final = 1_000
CONSOLE_SEARCH_SECONDS_MAX: Final = 900.0
CONSOLE_NEEDLE_CHARACTERS_MAX: Final = 1_000
# Seconds between two reports of a search, and between two signs of life of a tail without records.
CONSOLE_PROGRESS_SECONDS: Final = 0.5
# Records that a tail shows at a time, the pause after them, and how far it may be behind before it goes to the end.
CONSOLE_TAIL_RECORDS_MAX: Final = 50
CONSOLE_TAIL_PAUSE_SECONDS: Final = 0.5
CONSOLE_TAIL_BEHIND_MAX: Final = 10_000
# A page that is forgotten in a window ends its tail after this time.
CONSOLE_TAIL_SECONDS_MAX: Final = 3_600.0

# Changes at a time, over all viewers of a cluster. One continues when its page closes.
CONSOLE_CHANGES_MAX: Final = 8
# Bytes of a request: a record that is typed, or settings. Kafka's default bound of a record is 1 MiB.
CONSOLE_BODY_BYTES_MAX: Final = 1024 * 1024
# How long one request to a broker may take: a person who looks at a page waits no longer.
CONSOLE_REQUEST_MS_MAX: Final = 5_000

# Sessions of viewers that logged in. Each login has connections to each broker, and facts of its own.
CONSOLE_SESSIONS_MAX: Final = 100
# One user's browsers at a cluster: further ones end the session that was not used for longest.
CONSOLE_SESSIONS_OF_USER_MAX: Final = 5
# Seconds without a question of a page, and of a session in all: half an hour, and a working day with its breaks.
CONSOLE_SESSION_IDLE_SECONDS_MAX: Final = 1_800.0
CONSOLE_SESSION_SECONDS_MAX: Final = 43_200.0
# Seconds between two looks for sessions that have ended. A request looks by itself: this closes connections.
CONSOLE_SESSION_SWEEP_SECONDS: Final = 15.0
# Logins that brokers judge at a time. SCRAM costs a broker some milliseconds for each.
CONSOLE_LOGINS_AT_ONCE_MAX: Final = 4
# Letters of a user's name and of a password.
CONSOLE_LOGIN_CHARACTERS_MAX: Final = 1_000
# Failed tries before there is a pause, and the longest pause. An address may be a proxy, with all viewers behind it.
CONSOLE_TRIES_OF_USER_FREE: Final = 5
CONSOLE_TRIES_OF_USER_PAUSE_SECONDS_MAX: Final = 60.0
CONSOLE_TRIES_OF_ADDRESS_FREE: Final = 50
CONSOLE_TRIES_OF_ADDRESS_PAUSE_SECONDS_MAX: Final = 5.0
# Users and addresses whose tries are remembered, and the seconds after which they are forgotten.
CONSOLE_TRIES_KEPT_MAX: Final = 10_000
CONSOLE_TRIES_FORGOTTEN_SECONDS: Final = 900.0
# Logins that an identity provider was asked for, and the seconds in which the browser has to come back.
CONSOLE_OIDC_WAITING_MAX: Final = 1_000
CONSOLE_OIDC_SECONDS_MAX: Final = 600.0
# Seconds for which the addresses of an identity provider are kept.
CONSOLE_OIDC_ADDRESSES_SECONDS: Final = 3_600.0
