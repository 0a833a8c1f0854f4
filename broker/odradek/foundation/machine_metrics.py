"""The metrics of machines of several brokers. `foundation.metrics` has those of brokers, and says how it works.

On a machine every sample of `/metrics` has the label `process` too (`server.http.machine_admin`).
"""

from __future__ import annotations

from odradek.foundation.metric_kinds import counter as _counter
from odradek.foundation.metric_kinds import gauge as _gauge

MACHINE_PROCESS_UP = _gauge(
    "odradek_machine_process_up",
    "1 for each process of a machine that answers, 0 for one that does not; only with broker.processes above 1.",
)
MACHINE_PROCESS_RESTARTS = _counter(
    "odradek_machine_process_restarts_total",
    "How often the machine has started the process again after it ended; only with broker.processes above 1.",
)
