"""The paper's experiments with few messages, and their table beside what the paper published."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import paper
from bench.paper import PUBLISHED, SIDES, Side
from tests.support.broker_process import CHECKOUT, Broker
from tests.support.local_process import running

PAGE = CHECKOUT / "docs" / "figures-of-the-documents.md"


def planted() -> paper.Figures:
    """Three rounds of each figure, the second of which is the median."""
    return {
        experiment: {
            Side(*side): [9.0 * number, 10.0 * number, 1000.0 * number]
            for number, side in enumerate(SIDES, 1)
        }
        for experiment in PUBLISHED
    }


def test_the_table_has_the_medians_beside_the_published_figures() -> None:
    table = paper.show_figures(planted(), described="A machine.", messages=300, is_json=False)
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line[:1] == "|"
    ]
    assert rows[2] == ["producer, sets of 1", "50,000", "10", "20", "30", "messages/s"]
    assert rows[6] == ["overhead, sets of 50", "9", "10.0", "20.0", "30.0", "bytes/message"]
    assert table.startswith("A machine. 300 messages of 200 bytes, load ")


def test_programs_get_the_same() -> None:
    document = json.loads(paper.show_figures(planted(), described="A machine.", messages=300, is_json=True))
    assert document["rows"][0] == {
        "experiment": "producer, sets of 1",
        "published": 50_000,
        "documents on odradek": 10.0,
        "librdkafka on odradek": 20.0,
        "librdkafka on kafka": 30.0,
    }


def test_the_page_has_the_rows_that_the_command_prints() -> None:
    table = paper.show_figures(planted(), described="", messages=300, is_json=False)
    printed = [line.split("|")[1:3] for line in table.splitlines() if line[:1] == "|"]
    page = [line.split("|")[1:3] for line in PAGE.read_text().splitlines() if line[:1] == "|"]
    begin = page.index(printed[0])
    assert page[begin : begin + len(printed)] == printed


@pytest.mark.integration
@pytest.mark.thorough
@pytest.mark.parametrize("client", [paper.DOCUMENTS, paper.LIBRDKAFKA])
def test_each_client_does_every_experiment(client: str, tmp_path: Path) -> None:
    with running(Broker(tmp_path)) as broker:
        found = paper.measure(broker, client, 500)
    assert found.keys() == PUBLISHED.keys()
    assert all(figure > 0 for figure in found.values())
    # A set has a header of 61 bytes (KIP-98), and a message of 200 bytes some 7 more.
    assert found["overhead, sets of 1"] == pytest.approx(69, abs=3)
    assert 7 < found["overhead, sets of 50"] < 20


def test_a_worker_that_fails_shows_what_it_printed() -> None:
    with pytest.raises(AssertionError, match="KeyError: 'nonsense'"):
        paper._run("nonsense", "127.0.0.1:1", "t", 1, 1)
