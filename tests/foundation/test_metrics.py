"""The text of a scrape, read by Prometheus' own parser, and the reference pages that describe it."""

import math
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families

from odradek.foundation import metrics
from odradek.foundation.exposition import Exposition
from odradek.foundation.metrics import METRICS, MetricsRegistry, Sample
from odradek.metadata.image import reference
from tests.support.exposition import exposition_text

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
    values = _values(exposition_text(registry))
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


def _odd_samples() -> list[Sample]:
    return [
        *(metrics.LOG_END_OFFSET.sample(1 << 53, "topic", index) for index in range(3)),
        metrics.REQUESTS.sample(3, 'odd "name"\\\n'),
        metrics.REQUEST_SECONDS.distribution((0.1, 0.5), (1, 0, 2), 7.25, "FETCH"),
        metrics.BUILD_INFO.sample(1, "0", "3"),
    ]


@pytest.mark.parametrize(
    "accept",
    [
        "application/openmetrics-text",
        "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.3",
    ],
)
def test_open_metrics_is_written_where_a_scraper_asks_for_it(accept: str) -> None:
    registry = MetricsRegistry()
    registry.register(_odd_samples)
    assert Exposition(accept).content_type.startswith("application/openmetrics-text; version=1.0.0")
    text = exposition_text(registry, accept)
    found = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in open_metrics(text)
        for sample in family.samples
    }
    assert found == _values(exposition_text(registry)), "both formats say the same"
    assert found["odradek_log_end_offset", (("partition", "2"), ("topic", "topic"))] == 1 << 53
    assert text.count("# EOF") == 1 and text.endswith("# EOF\n")


@pytest.mark.parametrize("accept", ["", "*/*", "text/html", "text/plain;version=1.x", "\x00;version=;,=,;;"])
def test_any_other_scraper_gets_the_text_format(accept: str) -> None:
    assert Exposition(accept).content_type == "text/plain; version=0.0.4; charset=utf-8"


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text"])
def test_a_metric_of_many_samples_is_written_in_parts(accept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = MetricsRegistry()
    registry.register(_odd_samples)
    whole = exposition_text(registry, accept)
    monkeypatch.setattr("odradek.foundation.exposition.SAMPLES_PER_EXPOSITION_PART_MAX", 2)
    parts = list(Exposition(accept).parts(registry.collect()))
    assert max(part.count(b"odradek_log_end_offset{") for part in parts) == 2
    assert b"".join(parts).decode() == whole


def test_each_metric_is_described_once_whichever_source_has_it() -> None:
    registry = MetricsRegistry()
    registry.register(lambda: [metrics.REQUESTS.sample(1, "A"), metrics.TOPICS.sample(1)])
    registry.register(lambda: [metrics.REQUESTS.sample(1, "B")])
    text = exposition_text(registry)
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
    values = {name: value for (name, _), value in _values(exposition_text(registry)).items()}
    assert values["process_cpu_seconds_total"] > 0
    assert values["process_resident_memory_bytes"] > 1 << 20
    assert values["process_open_fds"] > 2
    assert math.isfinite(values["process_start_time_seconds"])


def test_names_say_kind_and_unit() -> None:
    for name, metric in METRICS.items():
        assert (metric.kind is metrics.MetricKind.COUNTER) == name.endswith("_total"), name
        assert metric.doc.endswith("."), name


@pytest.mark.generated
@pytest.mark.parametrize("name", sorted(reference.pages()))
def test_the_reference_pages_are_what_the_code_declares(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == reference.pages()[name], "run make reference"


def test_the_pages_are_written_where_asked(tmp_path: Path) -> None:
    assert reference.main([str(tmp_path / "new")]) == 0
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["metrics.md", "settings.md"]
    assert reference.main([]) == 2
