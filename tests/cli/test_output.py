"""Tables and JSON."""

from __future__ import annotations

import json
import uuid

import pytest

from odradek.cli.shared.output import format_bytes, plain, print_json, render_table
from odradek.client.results import ConfigSource, ListedOffset
from odradek.foundation.ids import TopicPartition


def test_columns_fit_their_widest_cell_with_numbers_to_the_right() -> None:
    table = render_table(("NAME", "N"), [("a", 1), ("longer", 1234), (None, None)])
    assert table.splitlines() == ["NAME       N", "a          1", "longer  1234", "-          -"]


def test_a_table_without_rows_is_its_headers() -> None:
    assert render_table(("A", "B"), []) == "A  B"


def test_a_cell_stays_on_its_line() -> None:
    assert render_table(("A",), [("x\ny",), ([1, 2],), (True,)]).splitlines()[1:] == ["x y", "1,2", "yes"]


def test_values_become_json(capsys: pytest.CaptureFixture[str]) -> None:
    identifier = uuid.uuid4()
    value = {
        "listed": ListedOffset(1, 2, 3),
        "source": ConfigSource.DEFAULT,
        "id": identifier,
        "bytes": b"a\xff",
        "pair": TopicPartition("t", 0),
        "none": None,
    }
    print_json(value)
    assert json.loads(capsys.readouterr().out) == {
        "listed": {"offset": 1, "timestamp_ms": 2, "leader_epoch": 3},
        "source": "default",
        "id": str(identifier),
        "bytes": "a\\xff",
        "pair": ["t", 0],
        "none": None,
    }
    assert plain((1.5, True)) == [1.5, True]


def test_sizes() -> None:
    assert [format_bytes(n) for n in (0, 1023, 1536, 3 << 30, 5 << 40)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "3.0 GiB",
        "5.0 TiB",
    ]
