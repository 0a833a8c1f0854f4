"""The bounds of `odradek top`, each with its reason; those of the facts that it asks for are in `console_limits`."""

from __future__ import annotations

from typing import Final

# How long one request of a look waits: an operator sees soon that a broker does not answer.
TOP_REQUEST_MS_MAX: Final = 5_000
# The pause after a look is at least this multiple of the time that it took. So the brokers of a large cluster work for
# one viewer half of the time at most.
TOP_REST_FACTOR: Final = 1.0
# Seconds between two questions of the doctor's rules: they ask each broker and group, and their findings change slowly.
TOP_FINDINGS_SECONDS: Final = 30.0
# Rows of a list that the screen has, those that come first in the order chosen. The rest is counted, and found by `/`.
TOP_ROWS_MAX: Final = 500
# Rows of each list that `--once` prints as a table. JSON has all of them.
TOP_ROWS_PRINTED_MAX: Final = 50
# Lines of the details of one row.
TOP_DETAIL_LINES_MAX: Final = 1_000
# Groups whose members one request counts: their descriptions have what each member owns.
MEMBERS_GROUPS_PER_REQUEST_MAX: Final = 100
# Bytes and seconds of one page of a broker's --admin: 10,000 partitions are some megabytes of metrics.
ADMIN_PAGE_BYTES_MAX: Final = 32 * 1024 * 1024
ADMIN_PAGE_SECONDS_MAX: Final = 5.0
