"""Algorithm 1 and the registrations that it reads: Kafka's rule for remainders, Kafka's bytes."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.classic import Blacklist, InvalidConfigException, Whitelist
from odradek.client.classic.connector import own_shares, shares
from odradek.client.classic.java_expressions import translate_expression
from odradek.client.classic.registrations import (
    BLACK_LIST,
    STATIC,
    WHITE_LIST,
    Registration,
    parse_registration,
)

pytestmark = pytest.mark.thorough


def by_thread(partitions: int, threads: list[str]) -> list[list[int]]:
    owners = shares(range(partitions), threads)
    return [[number for number, owner in owners.items() if owner == thread] for thread in sorted(threads)]


def test_the_first_threads_get_the_remainder() -> None:
    assert by_thread(5, ["a", "b"]) == [[0, 1, 2], [3, 4]]
    assert by_thread(2, ["a", "b", "c"]) == [[0], [1], []]
    assert by_thread(4, ["h-0", "h-1", "o-0"]) == [[0, 1], [2], [3]]
    assert shares(range(3), []) == {}


def test_threads_are_sorted_as_text_and_partitions_as_numbers() -> None:
    threads = [f"c-{number}" for number in range(11)]
    owners = shares([10, 2, 0, 1, 3, 4, 5, 6, 7, 8, 9, 11], threads)
    assert (owners[0], owners[1]) == ("c-0", "c-0")
    assert (owners[2], owners[3], owners[11]) == ("c-1", "c-10", "c-9")


@given(
    st.sets(st.integers(0, 30), max_size=20), st.sets(st.text("ab-01", min_size=1), min_size=1, max_size=12)
)
def test_every_partition_has_one_owner_and_shares_differ_by_one(
    partitions: set[int], threads: set[str]
) -> None:
    owners = shares(partitions, threads)
    assert owners.keys() == partitions
    counts = [list(owners.values()).count(thread) for thread in threads]
    assert max(counts) - min(counts) <= 1


@given(
    st.dictionaries(st.text("abc", min_size=1), st.integers(1, 4), min_size=1, max_size=5), st.integers(0, 12)
)
def test_members_with_one_view_agree(streams: dict[str, int], count: int) -> None:
    members = {name: Registration(STATIC, {"t": number}) for name, number in streams.items()}
    owned = [key.partition for name in members for key in own_shares(name, members, {"t": range(count)})]
    assert sorted(owned) == list(range(count))


def test_topics_with_unlike_subscribers_are_shared_on_their_own() -> None:
    members = {
        "G_a": Registration(STATIC, {"t1": 1}),
        "G_b": Registration(STATIC, {"t1": 1, "t2": 2}),
        "G_c": Registration(WHITE_LIST, {"t.*": 1}),
    }
    topics = {"t1": range(3), "t2": range(2), "other": range(9)}
    assert own_shares("G_a", members, topics) == {("t1", 0): 0}
    assert own_shares("G_b", members, topics) == {("t1", 1): 0, ("t2", 0): 0, ("t2", 1): 1}
    assert own_shares("G_c", members, topics) == {("t1", 2): 0}


def test_an_id_node_has_kafkas_bytes() -> None:
    own = Registration(STATIC, {"t1": 2})
    assert own.pack_node(timestamp_ms=1795395054171) == (
        b'{"version":1,"subscription":{"t1":2},"pattern":"static","timestamp":"1795395054171"}'
    )
    filtered = Registration(WHITE_LIST, {"t[0-9]+": 2}).pack_node(timestamp_ms=1)
    assert json.loads(filtered)["subscription"] == {"t[0-9]+": 2}
    again = parse_registration(filtered)
    assert (again.stream_count("t1"), again.stream_count("t"), again.stream_count("xt1")) == (2, 0, 0)


def test_fields_that_are_not_known_are_passed_over() -> None:
    found = parse_registration(b'{"version":9,"more":[],"subscription":{"t":1},"pattern":"static"}')
    assert found.stream_count("t") == 1


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b'{"t1":1}', b"[]", b"7", b'{"subscription":{"t":0},"pattern":"static"}',
     b'{"subscription":{"t":1},"pattern":"other"}', b'{"subscription":{"a":1,"b":1},"pattern":"white_list"}',
     b'{"subscription":{"t":"1"},"pattern":"static"}', b'{"subscription":{"(":1},"pattern":"white_list"}'],
)  # fmt: skip
def test_what_is_no_registration_is_an_error(data: bytes) -> None:
    with pytest.raises(InvalidConfigException):
        parse_registration(data)


def test_filters_are_read_as_kafka_reads_them() -> None:
    names = ["orders", "payments", "orders2", "__consumer_offsets"]

    def matched(pattern: str, expression: str) -> list[str]:
        return [name for name in names if Registration(pattern, {expression: 3}).stream_count(name)]

    assert matched(WHITE_LIST, " 'orders, payments' ") == ["orders", "payments"]
    assert matched(WHITE_LIST, ".*") == names[:3]
    assert matched(BLACK_LIST, "orders.*") == ["payments"]
    assert matched(WHITE_LIST, r"(?i)PAY\p{Alpha}++|[a-z&&[^a-z]]") == ["payments"]
    for wrong in ("(", "a{2,3}", "(?x)a", r"\y", "[z-a]"):
        with pytest.raises(InvalidConfigException, match="no regular expression of Java"):
            Blacklist(wrong)


def test_expressions_mean_what_java_says() -> None:
    """The answers are of `java.util.regex` in Java 17."""
    known = json.loads(Path(__file__).with_name("java_expressions.json").read_text(encoding="utf-8"))
    for expression, names in known["matched"].items():
        translated = translate_expression(expression)
        assert [name for name in known["names"] if translated.fullmatch(name)] == names, expression


@given(st.text("ab-[]^&\\QEpd{}(?i:)*+|1.L,", max_size=12))
def test_any_text_is_an_expression_or_a_clear_error(text: str) -> None:
    with contextlib.suppress(InvalidConfigException):
        Whitelist(text)
