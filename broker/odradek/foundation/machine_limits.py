"""The bounds of a machine of several brokers (`server.machine`), each with its reason."""

from __future__ import annotations

from typing import Final

# Each process takes a core. Larger machines are better used as two: one kill then takes half of them.
PROCESSES_MAX: Final = 64

# The ids of a machine's brokers are this far apart. Those of all machines must be smaller, so that no two brokers have
# one id. On Kubernetes they are below 10,000.
PROCESS_IDS_APART: Final = 10_000

# The ports of a machine's brokers are this far apart, so that listeners with neighbouring ports do not meet.
PROCESS_PORTS_APART: Final = 100

# A process that ends so often in this time does not come back by itself: the machine stops, and its supervisor knows.
PROCESS_ENDS_MAX: Final = 5
PROCESS_ENDS_SECONDS: Final = 600.0

# The pause before a process starts again: the first one, and the longest after it has doubled at each further end.
PROCESS_PAUSE_SECONDS: Final = 1.0
PROCESS_PAUSE_SECONDS_MAX: Final = 15.0

# How long one process waits for another's part of an answer. The probes of Kubernetes are patient for this time.
SIBLING_ANSWER_SECONDS_MAX: Final = 2.0
# Metrics of tens of thousands of partitions take longer. Prometheus waits ten seconds.
SIBLING_METRICS_SECONDS_MAX: Final = 8.0
