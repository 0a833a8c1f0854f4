"""The operator's metrics: what is declared, and how it is counted.

Declarations are of the broker's kind (`odradek.foundation.metrics`). The table is the operator's own, since no scrape
serves both. `odradek.foundation.exposition` writes the text.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Final

from odradek.foundation.metrics import Metric, MetricKind, Sample
from odradek_operator.foundation.keys import Key

METRICS: Final[dict[str, Metric]] = {}


def _declare(kind: MetricKind, name: str, doc: str, *labels: str) -> Metric:
    metric = METRICS[name] = Metric(kind, name, doc, labels)
    return metric


RECONCILES = _declare(
    MetricKind.COUNTER,
    "odradek_operator_reconciles_total",
    "Reconciles ended, by outcome.",
    "kind",
    "outcome",
)
RECONCILE_SECONDS = _declare(
    MetricKind.HISTOGRAM, "odradek_operator_reconcile_seconds", "Seconds that reconciles took.", "kind"
)
QUEUE_WAITING = _declare(
    MetricKind.GAUGE, "odradek_operator_queue_waiting", "Resources that wait to be reconciled."
)
QUEUE_AT_WORK = _declare(
    MetricKind.GAUGE, "odradek_operator_queue_at_work", "Resources that are being reconciled."
)
QUEUE_FAILING = _declare(
    MetricKind.GAUGE, "odradek_operator_queue_failing", "Resources whose last reconcile failed."
)
CONDITION = _declare(
    MetricKind.GAUGE,
    "odradek_resource_condition",
    "A condition of a resource: 1 true, 0 false, -1 unknown.",
    "kind",
    "namespace",
    "name",
    "condition",
)
LEADING = _declare(
    MetricKind.GAUGE, "odradek_operator_leading", "1 in the process that holds the Lease and acts."
)
WATCH_SILENT_SECONDS = _declare(
    MetricKind.GAUGE,
    "odradek_operator_watch_silent_seconds",
    "Seconds since the API server last answered the watch of a kind in a namespace; it does once a minute.",
    "kind",
    "namespace",
)
NAMESPACE_LEFT_OUT = _declare(
    MetricKind.GAUGE,
    "odradek_operator_namespace_left_out",
    "1 for a namespace whose watches were refused or ended, until they live again.",
    "namespace",
)
API_REQUESTS = _declare(
    MetricKind.COUNTER,
    "odradek_operator_api_requests_total",
    "Requests to Kubernetes' API, by HTTP status; 0 without an answer.",
    "method",
    "status",
)

_BOUNDS_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_TRUTHS: Final = {"True": 1, "False": 0}


class ReconcileCounts:
    """Reconciles by kind and outcome, and how long they took."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}
        self._seconds: dict[str, tuple[list[int], list[float]]] = {}

    def add(self, kind: str, outcome: str, seconds: float) -> None:
        """Count one that ended."""
        self._counts[kind, outcome] = self._counts.get((kind, outcome), 0) + 1
        counts, total = self._seconds.setdefault(kind, ([0] * (len(_BOUNDS_SECONDS) + 1), [0.0]))
        counts[bisect_left(_BOUNDS_SECONDS, seconds)] += 1
        total[0] += seconds

    def samples(self) -> Iterator[Sample]:
        for (kind, outcome), count in sorted(self._counts.items()):
            yield RECONCILES.sample(count, kind, outcome)
        for kind, (counts, total) in sorted(self._seconds.items()):
            yield RECONCILE_SECONDS.distribution(_BOUNDS_SECONDS, counts, total[0], kind)


class ConditionBook:
    """The conditions of every resource, as they were last stated."""

    def __init__(self) -> None:
        self._conditions: dict[Key, Mapping[str, str]] = {}

    def note(self, key: Key, conditions: Mapping[str, str]) -> None:
        """Keep a resource's conditions: True, False or Unknown by type."""
        self._conditions[key] = dict(conditions)

    def forget(self, key: Key) -> None:
        """A resource is gone."""
        self._conditions.pop(key, None)

    def samples(self) -> Iterator[Sample]:
        for (kind, namespace, name), conditions in self._conditions.items():
            for type, status in conditions.items():
                yield CONDITION.sample(_TRUTHS.get(status, -1), kind, namespace, name, type)
