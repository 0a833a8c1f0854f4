"""The text of a scrape, read by Prometheus' own parser, and the reference pages that describe it."""

import math
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from odradek.cluster import reference
from odradek.foundation import metrics
from odradek.foundation.metrics import METRICS, MetricsRegistry, Sample

DOCS = Path(__file__).parents[2] / "docs" / "reference"


def _values(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_prometheus_reads_what_is_written() -> None:
    registry = MetricsRegistry()

    def requests() -> list[Sample]:
        return [
            metrics.REQUESTS.sample(3, "FETCH"),
            metrics.REQUEST_SECONDS.distribution((0.1, 0.5), (1, 0, 2), 7.25, "FETCH"),
            metrics.REQUESTS.sample(4, 'odd "name"\\\n'),
        ]

    registry.register(requests)
    registry.register(lambda: [metrics.TOPICS.sample(2), metrics.GROUP_LAG_SECONDS.sample(0.5, "g", "t", 0)])
    registry.register(lambda: [metrics.REQUESTS.sample(5, "PRODUCE")])
    values = _values(registry.render().decode())
    assert values["odradek_requests_total", (("api", "FETCH"),)] == 3
    assert values["odradek_requests_total", (("api", 'odd "name"\\\n'),)] == 4
    assert values["odradek_requests_total", (("api", "PRODUCE"),)] == 5
    assert values["odradek_topics", ()] == 2
    assert values["odradek_group_lag_seconds", (("group", "g"), ("partition", "0"), ("topic", "t"))] == 0.5
    buckets = {
        dict(labels)["le"]: value
        for (name, labels), value in values.items()
        if name == "odradek_request_seconds_bucket"
    }
    assert buckets == {"0.1": 1, "0.5": 1, "+Inf": 3}
    assert values["odradek_request_seconds_sum", (("api", "FETCH"),)] == 7.25
    assert values["odradek_request_seconds_count", (("api", "FETCH"),)] == 3


def test_each_metric_is_described_once_whoever_gives_it() -> None:
    registry = MetricsRegistry()
    registry.register(lambda: [metrics.REQUESTS.sample(1, "A"), metrics.TOPICS.sample(1)])
    registry.register(lambda: [metrics.REQUESTS.sample(1, "B")])
    text = registry.render().decode()
    assert text.count("# TYPE odradek_requests_total counter") == 1
    assert text.count("# HELP") == 2
    lines = [line for line in text.splitlines() if line.startswith("odradek_requests_total")]
    assert text.count("\n".join(lines)) == 1, "the lines of a metric stand together"


def test_wrong_labels_are_found_where_they_are_made() -> None:
    with pytest.raises(AssertionError, match="has the labels"):
        metrics.REQUESTS.sample(1)
    with pytest.raises(AssertionError, match="is a histogram"):
        metrics.REQUEST_SECONDS.sample(1, "A")
    with pytest.raises(AssertionError, match="no histogram"):
        metrics.REQUESTS.distribution((), (1,), 0, "A")


def test_the_process_is_described() -> None:
    registry = MetricsRegistry()
    registry.register(metrics.process_samples)
    values = {name: value for (name, _), value in _values(registry.render().decode()).items()}
    assert values["process_cpu_seconds_total"] > 0
    assert values["process_resident_memory_bytes"] > 1 << 20
    assert values["process_open_fds"] > 2
    assert math.isfinite(values["process_start_time_seconds"])


def test_names_say_kind_and_unit() -> None:
    for name, metric in METRICS.items():
        assert (metric.kind is metrics.MetricKind.COUNTER) == name.endswith("_total"), name
        assert metric.doc.endswith("."), name


@pytest.mark.parametrize("name", sorted(reference.pages()))
def test_the_reference_pages_are_what_the_code_declares(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == reference.pages()[name], "run make reference"


def test_the_pages_are_written_where_asked(tmp_path: Path) -> None:
    assert reference.main([str(tmp_path / "new")]) == 0
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["metrics.md", "settings.md"]
    assert reference.main([]) == 2
