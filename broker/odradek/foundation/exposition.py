"""The text of /metrics for Prometheus: the samples of a scrape, written by prometheus_client.

The scraper's Accept header chooses the format: Prometheus' text or OpenMetrics. prometheus_client negotiates it and
writes the lines. A metric of thousands of partitions is written in parts, and a server does other work between them.

What it leaves out: counting and declaring, which are `odradek.foundation.metrics`. Only processes with a port for
/metrics import this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from odradek.foundation.limits import SAMPLES_PER_EXPOSITION_PART_MAX
from odradek.foundation.metrics import Distribution, Metric, MetricKind, Sample


class _Families(Collector):
    """A collector of given families: prometheus_client's encoders take a collector."""

    def __init__(self, *families: Family) -> None:
        self._families = families

    def collect(self) -> Iterable[Family]:
        return self._families


class Exposition:
    """One scrape's text, in the format that an Accept header asks for."""

    def __init__(self, accept: str = "") -> None:
        """`accept` is the header's value. An empty or malformed one gets Prometheus' text format 0.0.4."""
        try:
            self._encode, self.content_type = choose_encoder(accept)
        except TypeError:  # a version that is not a number, such as 1.x
            self._encode, self.content_type = choose_encoder("")
        # OpenMetrics ends every text with a line of its own, which the whole answer has once.
        self._end = self._encode(_Families())

    def parts(self, collected: dict[Metric, list[Sample]]) -> Iterator[bytes]:
        """The text in parts of at most SAMPLES_PER_EXPOSITION_PART_MAX samples; joined they are the whole."""
        for metric, samples in collected.items():
            head = self._body(_family(metric, ()))
            yield head
            for first in range(0, len(samples), SAMPLES_PER_EXPOSITION_PART_MAX):
                some = samples[first : first + SAMPLES_PER_EXPOSITION_PART_MAX]
                yield self._body(_family(metric, some))[len(head) :]
        yield self._end

    def _body(self, family: Family) -> bytes:
        text = self._encode(_Families(family))
        return text[: len(text) - len(self._end)]


def _family(metric: Metric, samples: Sequence[Sample]) -> Family:
    if metric.kind is MetricKind.HISTOGRAM:
        histogram = HistogramMetricFamily(metric.name, metric.doc, labels=metric.labels)
        for _, labels, value in samples:
            assert isinstance(value, Distribution)
            histogram.add_metric(labels, _buckets(value), value.total)
        return histogram
    family = _FAMILIES[metric.kind](metric.name, metric.doc, labels=metric.labels)
    for _, labels, value in samples:
        assert not isinstance(value, Distribution)
        family.add_metric(labels, value)
    return family


def _buckets(value: Distribution) -> list[tuple[str, float]]:
    edges = [*map(floatToGoString, value.bounds), "+Inf"]
    return list(zip(edges, accumulate(value.counts), strict=True))


_FAMILIES: Final[dict[MetricKind, Callable[..., CounterMetricFamily | GaugeMetricFamily]]] = {
    MetricKind.COUNTER: CounterMetricFamily,
    MetricKind.GAUGE: GaugeMetricFamily,
}
