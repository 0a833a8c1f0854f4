"""Series of pushed metrics: gauges are replaced, differences add up, and nothing grows beyond its bounds."""

from __future__ import annotations

from uuid import UUID

from odradek.broker.telemetry.otlp import PointKind
from odradek.broker.telemetry.series import ClientLabels, PushedMetrics, PushedSeries, SeriesName
from odradek.foundation.telemetry_limits import TELEMETRY_SERIES_MAX, TELEMETRY_SERIES_PER_CLIENT_MAX


def metrics(kind: PointKind, *values: tuple[str, float]) -> PushedMetrics:
    return PushedMetrics({}, [(SeriesName(name), kind, value) for name, value in values], 0, 0)


def take(series: PushedSeries, number: int, pushed: PushedMetrics, expires_at: float = 60.0) -> None:
    series.take(UUID(int=number), ClientLabels("c", f"i{number}"), pushed, expires_at=expires_at)


def test_gauges_are_replaced_and_differences_add_up() -> None:
    series = PushedSeries()
    take(series, 1, metrics(PointKind.GAUGE, ("a", 1), ("b", 2)))
    take(series, 1, metrics(PointKind.DELTA, ("s", 5)))
    take(series, 1, PushedMetrics({"group_id": "g"}, [(SeriesName("a"), PointKind.GAUGE, 3)], 2, 1))
    take(series, 1, metrics(PointKind.DELTA, ("s", 7)))
    take(series, 1, metrics(PointKind.CUMULATIVE, ("w", 9)))
    take(series, 1, metrics(PointKind.CUMULATIVE, ("w", 8)))
    (client,) = series
    assert client.gauges == {}
    assert client.counters == {SeriesName("s"): 12, SeriesName("w"): 8}
    assert series.count == 3
    assert (series.unsupported, series.beyond_client_bound) == (2, 1)


def test_a_client_has_a_bounded_number_of_series() -> None:
    series = PushedSeries()
    many = [(f"m{number}", 1.0) for number in range(TELEMETRY_SERIES_PER_CLIENT_MAX + 3)]
    take(series, 1, metrics(PointKind.DELTA, *many))
    assert series.count == TELEMETRY_SERIES_PER_CLIENT_MAX + 1
    assert series.beyond_client_bound == 3
    take(series, 1, metrics(PointKind.DELTA, many[0]))
    (client,) = series
    assert client.counters[SeriesName("m0")] == 2


def test_clients_that_pushed_longest_ago_go_for_others() -> None:
    series = PushedSeries()
    many = metrics(PointKind.GAUGE, *((f"m{number}", 1.0) for number in range(999)))
    for number in range(TELEMETRY_SERIES_MAX // 1000):
        take(series, number, many)
    take(series, 0, many)
    assert (series.count, series.evicted) == (TELEMETRY_SERIES_MAX, 0)
    take(series, 99, metrics(PointKind.GAUGE, ("m", 1)))
    assert [client.labels.instance for client in series][-2:] == ["i0", "i99"]
    assert "i1" not in [client.labels.instance for client in series]
    assert (series.count, series.evicted) == (TELEMETRY_SERIES_MAX - 1000 + 2, 1000)


def test_silent_clients_are_forgotten() -> None:
    series = PushedSeries()
    take(series, 1, metrics(PointKind.GAUGE, ("m", 1)), expires_at=60)
    take(series, 2, metrics(PointKind.GAUGE, ("m", 1)), expires_at=900)
    series.forget_silent(60)
    assert [client.labels.instance for client in series] == ["i2"]
    assert series.count == 2
