"""The bounds of `odradek support-bundle`, each with its reason: a person sends the file, and another one reads it."""

from __future__ import annotations

from typing import Final

# Seconds for one part, and for the whole. A cluster in trouble is asked for what it still answers, and not for longer.
SUPPORT_PART_SECONDS_MAX: Final = 30.0
SUPPORT_SECONDS_MAX: Final = 300.0
# Bytes of one file before it is compressed, and of all: what most mail and trackers take once it is compressed.
SUPPORT_FILE_BYTES_MAX: Final = 32 * 1024 * 1024
SUPPORT_BYTES_MAX: Final = 256 * 1024 * 1024
# Megabytes of the end of each log, by default and at most. A broker logs some megabytes in a bad hour.
SUPPORT_LOG_MB_DEFAULT: Final = 10
SUPPORT_LOG_MB_MAX: Final = 30
# Files, logs and addresses that one bundle takes.
SUPPORT_PLACES_MAX: Final = 32
# Partitions with their replicas: some four megabytes as JSON.
SUPPORT_PARTITIONS_MAX: Final = 20_000
# Partitions with a problem, and transactions, that are named; the rest is counted.
SUPPORT_TROUBLED_MAX: Final = 1_000
# Brokers and topics whose settings are asked for, those that have any of their own.
SUPPORT_BROKERS_ASKED_MAX: Final = 100
SUPPORT_TOPICS_ASKED_MAX: Final = 5_000
# Files of a log directory that are listed, and how deep: a partition's files are in the second level.
SUPPORT_FILES_LISTED_MAX: Final = 100_000
SUPPORT_FOLDERS_DEPTH_MAX: Final = 3
# Names that hold characters which are in no topic's name are looked for one by one.
SUPPORT_ODD_NAMES_MAX: Final = 2_000
# Installed packages that are named.
SUPPORT_PACKAGES_MAX: Final = 1_000
