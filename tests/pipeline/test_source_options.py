"""Options of `format("odradek")`, positions as they are written, and ranges split into tasks; no broker."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.admin.logs import EARLIEST, LATEST
from odradek.foundation.ids import TopicPartition
from odradek_pipeline.errors import OptionError
from odradek_pipeline.settings.options import READING, WRITING, Options, option_table
from odradek_pipeline.source.positions import parse_end, parse_start
from odradek_pipeline.source.ranges import OffsetInputPartition, share_by_lag, split
from odradek_pipeline.source.topics import TopicSubscription
from tests.support.broker_process import CHECKOUT


def options(**given: str) -> Options:
    """Options by name; underscores stand for dots."""
    return Options({name.replace("_", "."): value for name, value in given.items()}, READING)


def test_names_are_taken_in_any_case_and_with_either_prefix() -> None:
    found = Options(
        {"Kafka.Bootstrap.Servers": "a:1", "odradek.isolation.level": "read_committed", "MINPARTITIONS": "4"},
        READING,
    )
    assert (found.require("bootstrap.servers"), found["minPartitions"]) == ("a:1", 4)
    assert found["isolation.level"] == "read_committed"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"subscrib": "a"}, "did you mean subscribe"),
        ({"kafka.group.idd": "a"}, "there is no option"),
        ({"minPartitions": "0"}, "it must be at least 1"),
        ({"minPartitions": "many"}, "a whole number"),
        ({"failOnDataLoss": "yes"}, "true or false"),
        ({"bootstrap.servers": "a:1", "kafka.bootstrap.servers": "b:1"}, "set twice"),
    ],
)
def test_wrong_options_are_named(given: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        Options(given, READING)


def test_a_blank_option_is_not_set() -> None:
    found = Options({"minPartitions": " ", "isolation.level": "READ_COMMITTED"}, READING)
    assert not found.is_set("minPartitions")
    assert (found["minPartitions"], found["isolation.level"]) == (None, "read_committed")
    with pytest.raises(OptionError, match=r"'bootstrap.servers' is not set: it has addresses"):
        found.require("bootstrap.servers")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "none is set"),
        ({"subscribe": "a", "assign": "{}"}, "subscribe and assign is set"),
        ({"subscribePattern": "("}, "no regular expression"),
        ({"assign": '{"a": 1}'}, "list of partitions"),
        ({"assign": "[]"}, "JSON object"),
    ],
)
def test_a_subscription_is_named_in_one_way(given: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        TopicSubscription.of(options(**given))


def test_positions_have_the_stock_connectors_precedence() -> None:
    found = parse_start(
        options(startingTimestamp="5", startingOffsetsByTimestamp="{}", startingOffsets="earliest"),
        is_stream=False,
    )
    assert (found.option, found.time_ms, found.is_latest_without_match) == ("startingTimestamp", 5, False)
    found = parse_end(options(endingOffsets='{"a": {"0": 7, "1": -1}}'))
    assert found.offsets == {TopicPartition("a", 0): 7, TopicPartition("a", 1): -1}
    assert (parse_start(options(), is_stream=False).word, parse_start(options(), is_stream=True).word) == (
        EARLIEST,
        LATEST,
    )


@pytest.mark.parametrize(
    "given",
    [
        {"startingOffsets": "latest"},
        {"startingOffsets": '{"a": {"0": -1}}'},
        {"startingOffsets": '{"a": {"0": -3}}'},
        {"startingOffsets": '{"a": {"zero": 1}}'},
        {"startingOffsets": '{"a": 1}'},
        {"startingOffsets": "somewhere"},
        {"endingOffsets": "earliest"},
        {"endingOffsets": '{"a": {"0": -2}}'},
        {"startingTimestamp": "-5"},
        {"startingOffsetsByTimestampStrategy": "first"},
    ],
)
def test_a_batch_refuses_what_reads_nothing_or_means_nothing(given: dict[str, str]) -> None:
    with pytest.raises(OptionError):
        found = options(**given)
        parse_start(found, is_stream=False)
        parse_end(found)


def ranges_of(*sizes: int) -> list[OffsetInputPartition]:
    return [OffsetInputPartition("t", number, "id", 10, 10 + size) for number, size in enumerate(sizes)]


@given(
    st.lists(st.integers(0, 1000), min_size=1, max_size=6),
    st.none() | st.integers(1, 20),
    st.none() | st.integers(1, 400),
)
def test_a_split_covers_every_offset_once(
    sizes: list[int], tasks_min: int | None, records_max: int | None
) -> None:
    pieces = split(ranges_of(*sizes), tasks_min=tasks_min, records_max=records_max)
    covered = [(one.partition, offset) for one in pieces for offset in range(one.start, one.end)]
    assert covered == [
        (number, offset) for number, size in enumerate(sizes) for offset in range(10, 10 + size)
    ]
    assert all(0 < one.size <= (records_max or one.size) for one in pieces)
    assert len(pieces) >= min(tasks_min or 0, sum(sizes))


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=6), st.integers(1, 500))
def test_a_bounded_batch_takes_from_each_partition_and_is_never_empty(
    lags: list[int], total_max: int
) -> None:
    shares = share_by_lag(lags, total_max)
    assert sum(shares) == min(sum(lags), total_max)
    assert all(0 <= share <= lag for share, lag in zip(shares, lags, strict=True))


def test_ranges_survive_pickling() -> None:
    import pickle

    one: Any = ranges_of(3)[0]
    assert pickle.loads(pickle.dumps(one)) == one
    assert repr(one) == "t-0[10, 13)"


def test_the_page_has_the_options_that_are_declared() -> None:
    page = (CHECKOUT / "docs" / "data-source.md").read_text()
    assert option_table(READING) in page
    assert option_table(WRITING) in page
