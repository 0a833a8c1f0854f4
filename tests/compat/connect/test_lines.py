"""Kafka Connect, exactly once, while workers and brokers go away; `lines` has the long version."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.compat.connect.lines import judged, play
from tests.compat.connect.workers import Workers
from tests.compat.streams.exactly_once import failed_brokers, running
from tests.support.java import JavaUnavailableError, connect_classpath
from tests.support.peers import forgive_unclosed, skip_or_fail

__all__ = ["forgive_unclosed"]

pytestmark = [
    pytest.mark.clients,
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.thorough,
]


def test_lines_are_in_the_topic_once_and_in_the_sinks_file(tmp_path: Path) -> None:
    try:
        connect_classpath()
    except JavaUnavailableError as error:
        skip_or_fail(str(error))
    faults = ["source's worker killed", "broker killed"]
    with running(tmp_path) as cluster:
        workers = Workers(tmp_path, cluster.bootstrap, count=1)
        try:
            verdict = play(cluster, workers, tmp_path, faults=faults, chance=random.Random(1))
        finally:
            workers.close()
        assert failed_brokers(cluster) == []
    print(verdict)
    assert verdict.is_clean


def test_the_verdict_finds_what_went_wrong() -> None:
    lines = ["a", "b", "c"]
    assert judged(lines, lines, lines).is_clean
    assert judged(lines, lines, ["a", "b", "b", "c"]).is_clean, "the sink writes at least once"
    assert judged(lines, lines, ["a", "b", "b", "c"]).twice_in_file == 1
    assert judged(lines, lines, ["a", "c"]).missing_in_file == ["b"]
    assert not judged(lines, ["a", "b", "b", "c"], lines).is_clean, "a line is in the topic twice"
    assert not judged(lines, ["a", "b"], lines).is_clean, "a line is lost"
    assert not judged(lines, ["a", "c", "b"], lines).is_clean, "two lines changed places"
    assert not judged([], [], []).is_clean, "nothing was tried"
