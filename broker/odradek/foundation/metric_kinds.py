"""The parts of a metric: its kind, labels and samples. The metrics themselves are declared in `foundation.metrics`."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple


class MetricKind(Enum):
    """The kind of a metric: a number that only rises, one that rises and falls, or a distribution."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Distribution(NamedTuple):
    """A histogram's value: `counts[i]` observations up to `bounds[i]`, the last count above all bounds.

    The counts are not cumulative. `total` is the sum of all observations, in the metric's unit.
    """

    bounds: Sequence[float]
    counts: Sequence[int]
    total: float


class Sample(NamedTuple):
    """A metric's value for one combination of labels, in the order of the metric's labels."""

    metric: Metric
    labels: tuple[str, ...]
    value: float | Distribution


class Metric:
    """One declared metric. Make samples with `sample`, or with `distribution` for histograms."""

    __slots__ = ("doc", "kind", "labels", "name")

    def __init__(self, kind: MetricKind, name: str, doc: str, labels: tuple[str, ...]) -> None:
        self.kind = kind
        self.name = name
        self.doc = doc
        self.labels = labels

    def sample(self, value: float, *labels: object) -> Sample:
        """The metric's value for these label values, in the order of declaration."""
        assert self.kind is not MetricKind.HISTOGRAM, f"{self.name} is a histogram: use distribution"
        return Sample(self, self._label_values(labels), value)

    def distribution(
        self, bounds: Sequence[float], counts: Sequence[int], total: float, *labels: object
    ) -> Sample:
        """A histogram's value for these label values; `Distribution` explains the numbers."""
        assert self.kind is MetricKind.HISTOGRAM, f"{self.name} is no histogram: use sample"
        assert len(counts) == len(bounds) + 1, f"{self.name} needs one count more than bounds"
        return Sample(self, self._label_values(labels), Distribution(bounds, counts, total))

    def _label_values(self, values: Sequence[object]) -> tuple[str, ...]:
        assert len(values) == len(self.labels), f"{self.name} has the labels {self.labels}, not {values}"
        return tuple([str(value) for value in values])


METRICS: Final[dict[str, Metric]] = {}
"""Every declared metric by name, in the order of declaration."""


def _declare(kind: MetricKind, name: str, doc: str, labels: tuple[str, ...]) -> Metric:
    assert name not in METRICS, f"{name} is declared twice"
    metric = METRICS[name] = Metric(kind, name, doc, labels)
    return metric


def counter(name: str, doc: str, *labels: str) -> Metric:
    """Declare a metric: a number that only rises."""
    return _declare(MetricKind.COUNTER, name, doc, labels)


def gauge(name: str, doc: str, *labels: str) -> Metric:
    """Declare a metric: a number that rises and falls."""
    return _declare(MetricKind.GAUGE, name, doc, labels)


def histogram(name: str, doc: str, *labels: str) -> Metric:
    """Declare a metric: a distribution."""
    return _declare(MetricKind.HISTOGRAM, name, doc, labels)
