"""The parts of a machine that need no process: when one starts again, and how the metrics of several are one text."""

import pytest

from odradek.foundation import metrics
from odradek.foundation.exposition import Exposition
from odradek.foundation.machine_limits import PROCESS_ENDS_MAX, PROCESS_ENDS_SECONDS
from odradek.foundation.metrics import Distribution
from odradek.server.http.machine_admin import join_metrics
from odradek.server.machine.supervisor import RestartRule


def test_pauses_grow_and_end() -> None:
    now = 0.0
    rule = RestartRule(lambda: now)
    assert [rule.note_end() for _ in range(PROCESS_ENDS_MAX)] == [1.0, 2.0, 4.0, 8.0, 15.0]
    assert rule.note_end() is None


def test_a_process_that_has_run_for_long_starts_again_soon() -> None:
    now = 0.0
    rule = RestartRule(lambda: now)
    for _ in range(3 * PROCESS_ENDS_MAX):
        assert rule.note_end() == 1.0
        now += PROCESS_ENDS_SECONDS + 1


def scrape(accept: str, count: int) -> bytes:
    collected = {
        metrics.BROKERS: [metrics.BROKERS.sample(count)],
        metrics.REQUESTS: [metrics.REQUESTS.sample(count, "FETCH"), metrics.REQUESTS.sample(1, 'a"b{')],
        metrics.REQUEST_SECONDS: [metrics.REQUEST_SECONDS.distribution((0.1, 1.0), (1, 2, 0), 0.5, "FETCH")],
    }
    assert isinstance(collected[metrics.REQUEST_SECONDS][0].value, Distribution)
    return b"".join(Exposition(accept).parts(collected))


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text; version=1.0.0"])
def test_metrics_of_processes_are_one_text(accept: str) -> None:
    only_one = b"".join(Exposition(accept).parts({metrics.TOPICS: [metrics.TOPICS.sample(3)]}))
    text = join_metrics([(1, scrape(accept, 4)), (2, scrape(accept, 5)), (3, only_one)]).decode()
    lines = text.splitlines()
    assert lines.count("# TYPE odradek_brokers gauge") == 1
    at = lines.index("# TYPE odradek_brokers gauge")
    assert lines[at + 1 : at + 3] == [
        'odradek_brokers{process="1"} 4.0',
        'odradek_brokers{process="2"} 5.0',
    ]
    assert 'odradek_requests_total{process="2",api="FETCH"} 5.0' in lines
    assert 'odradek_requests_total{process="1",api="a\\"b{"} 1.0' in lines
    assert 'odradek_request_seconds_bucket{process="1",api="FETCH",le="0.1"} 1.0' in lines
    assert 'odradek_topics{process="3"} 3.0' in lines
    assert lines.count("# EOF") == (1 if accept else 0)
    assert lines[-1] == "# EOF" or not accept
    assert text.endswith("\n")
