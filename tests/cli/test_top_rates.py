"""`odradek top` by values: the rates of two looks, the lists, their order and their filter, and what is printed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from odradek.cli.cluster.top.details import describe_members, describe_row
from odradek.cli.cluster.top.lists import (
    BAD,
    WARNING,
    Form,
    TopList,
    choose_rows,
    first_order,
    list_all,
)
from odradek.cli.cluster.top.printing import format_cell, format_rate, summarize, top_document
from odradek.cli.cluster.top.rates import Comparison, TopicBytes, compare, sum_bytes
from odradek.client.admin.diagnosis import Diagnosis, Severity
from odradek.client.admin.health import BrokerStatus
from odradek.client.results import GroupDescription, GroupMember
from odradek.console.cluster_facts import DoctorFindings, GroupDetail, GroupPlaces
from odradek.foundation.ids import TopicPartition
from tests.cli.top_looks import broker, group, look, partition, topic, without_leader

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def lists(shown: Comparison) -> dict[str, TopList]:
    return {one.name: one for one in list_all(shown)}


def rows(shown: Comparison, name: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = top_document(shown)[name]  # type: ignore[assignment]
    return found


def test_rates_are_what_grew_between_two_looks() -> None:
    topics = [topic("a", partition(0), partition(1)), topic("b")]
    before = look(10.0, topics=topics, ends={A0: 100, A1: 50, B0: 7}, sizes={A0: 1000, A1: 0, B0: 70})
    now = look(14.0, topics=topics, ends={A0: 300, A1: 90, B0: 7}, sizes={A0: 3000, A1: 400, B0: 70})
    shown = compare(before, now)
    a, b = shown.topics["a"], shown.topics["b"]
    assert (a.records_in, a.bytes_in, a.bytes_out) == (60.0, 600.0, None)
    assert (b.records_in, b.bytes_in) == (0.0, 0.0)
    assert shown.total.records_in == 60.0
    assert shown.seconds == 4.0


def test_a_log_that_is_shorter_or_new_has_no_rate_of_its_own() -> None:
    topics = [topic("a", partition(0), partition(1)), topic("b")]
    shown = compare(
        look(0.0, topics=topics, ends={A0: 500}), look(1.0, topics=topics, ends={A0: 3, A1: 9, B0: 4})
    )
    assert shown.topics["a"].records_in == 0.0  # made again; the other partition was not known
    assert shown.topics["b"].records_in is None


def test_one_look_has_no_rates() -> None:
    shown = compare(None, look(1.0, topics=[topic("a")], ends={A0: 5}))
    assert shown.topics == {} and shown.total.records_in is None
    (row,) = rows(shown, "topics")
    assert row["records_in_per_second"] is None and row["partitions"] == 1


def test_lag_changes_and_records_out_are_those_of_groups() -> None:
    topics = [topic("a", partition(0), partition(1))]
    before = look(0.0, topics=topics, groups=[group("g", {A0: 10, A1: 5}, {"a": 100}), group("h", {A0: 0})])
    now = look(2.0, topics=topics, groups=[group("g", {A0: 30, A1: 5}, {"a": 130}), group("h", {A0: 8})])
    shown = compare(before, now)
    assert shown.groups["g"].lag_change == 15.0 and shown.groups["g"].records == 10.0
    assert shown.groups["h"].lag_change is None
    assert shown.topics["a"].records_out == 14.0
    g, h = rows(shown, "groups")
    assert (g["lag"], g["lag_change_per_second"], g["members"]) == (130, 15.0, 2)
    assert h["lag"] is None


def test_bytes_that_brokers_count_go_before_those_of_disks() -> None:
    page = (
        "# TYPE odradek_topic_bytes_in counter\n"
        'odradek_topic_bytes_in_total{topic="a"} 100.0\n'
        'odradek_topic_bytes_out_total{topic="a"} 1e3\n'
        'odradek_topic_bytes_in_total{topic="b"} 7.0\n'
    )
    assert sum_bytes([page, page])["a"] == TopicBytes(200.0, 2000.0)
    before, now = look(0.0, topics=[topic("a"), topic("b")]), look(10.0, topics=[topic("a"), topic("b")])
    shown = compare(
        replace(before, counted={"a": TopicBytes(100, 0), "b": TopicBytes(50, 50)}),
        replace(now, counted={"a": TopicBytes(600, 200), "b": TopicBytes(10, 90)}),
    )
    assert (shown.topics["a"].bytes_in, shown.topics["a"].bytes_out) == (50.0, 20.0)
    assert (shown.topics["b"].bytes_in, shown.topics["b"].bytes_out) == (0.0, 4.0)  # it started again


def test_what_is_wrong_is_marked() -> None:
    topics = [topic("a", partition(0, in_sync=[1]), without_leader(1)), topic("b")]
    gone = broker(2, BrokerStatus.GONE)
    shown = compare(None, look(0.0, topics=topics, brokers=[broker(1), gone]))
    found = lists(shown)
    assert [row.mark for row in found["brokers"].rows] == [WARNING, BAD]
    assert [(row.key, row.mark) for row in found["partitions"].rows] == [("a-1", BAD), ("a-0", WARNING)]
    assert [(row.key, row.mark) for row in found["topics"].rows] == [("a", BAD), ("b", "")]
    state, parts, _ = summarize(shown)
    assert state == "unhealthy  controller 1  brokers 1/2"
    problems = "1 leaderless, 1 under-min-isr, 1 at-min-isr, 2 under-replicated"
    assert parts == f"topics 2  partitions 3 ({problems})  groups 0  lag 0"
    lines = "\n".join(describe_row(shown, found["brokers"], found["brokers"].rows[1]))
    assert "its replicas that are not in sync: 2" in lines


def test_queues_stand_apart_from_groups() -> None:
    shown = compare(None, look(0.0, groups=[group("g"), group("q", {A0: 3}, {"a": 4}, kind="share")]))
    assert [row["group"] for row in rows(shown, "groups")] == ["g"]
    assert [(row["group"], row["lag"]) for row in rows(shown, "queues")] == [("q", 4)]


def test_findings_have_words_and_advice() -> None:
    findings = DoctorFindings(
        [Diagnosis(Severity.PROBLEM, "health", "a disk is full", "make room")], ["racks"], {}
    )
    shown = compare(None, look(0.0), findings)
    (row,) = lists(shown)["findings"].rows
    assert row.values == ("problem", "health", "a disk is full") and row.mark == BAD
    assert "what to do: make room" in describe_row(shown, lists(shown)["findings"], row)
    assert top_document(shown)["passed"] == ["racks"]
    assert lists(compare(None, look(0.0)))["findings"].empty == "the doctor has not looked yet"


def test_rows_are_sorted_by_a_column_with_the_unknown_last() -> None:
    groups = [group("c", lags={"a": 5}), group("a"), group("Bills", lags={"a": 70})]
    found = lists(compare(None, look(0.0, groups=groups)))["groups"]

    def names(**wanted: object) -> list[str]:
        return [row.key for row in choose_rows(found, **wanted)]  # type: ignore[arg-type]

    assert first_order(found) == ("lag", True)
    assert names(order="lag") == ["Bills", "c", "a"]
    assert names(order="lag", is_descending=False) == ["c", "Bills", "a"]
    assert names(order="group", is_descending=False) == ["a", "Bills", "c"]
    assert names(text="bILL") == ["Bills"]
    assert names(text="stable", order="lag") == ["Bills", "c", "a"]
    assert names(order="no such column") == ["c", "a", "Bills"]


def test_details_of_a_topic_have_partitions_and_readers() -> None:
    shown = compare(
        look(0.0, topics=[topic("a")], groups=[group("g", {A0: 1}, {"a": 4})]),
        look(
            1.0, topics=[topic("a")], ends={A0: 12}, sizes={A0: 2048}, groups=[group("g", {A0: 1}, {"a": 9})]
        ),
    )
    found = lists(shown)["topics"]
    text = "\n".join(describe_row(shown, found, found.rows[0]))
    assert "g      classic  Stable    9           5.0" in text
    assert "0       1  1,2       1,2       12  2.0K" in text


def test_details_of_a_group_have_members_and_partitions() -> None:
    member = GroupMember("m-1", None, "app", "/10.0.0.7", (A0,))
    described = GroupDescription("g", "Stable", "classic", "consumer", "range", 1, (member,))
    places = GroupPlaces({A0: 5, A1: 1}, {})
    text = "\n".join(describe_members(GroupDetail(described, places, {A0: 8, A1: 90}, {})))
    assert "1 member, coordinator 1, assignor range" in text
    assert text.index("a-1") < text.index("a-0 "), "the largest lag is first"
    assert "app" in text and "/10.0.0.7" in text


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0.0, "0"), (0.4, "0.4"), (-3.25, "-3.2"), (37.2, "37"), (12_345, "12.3k"), (4_100_000, "4.1M")],
)
def test_rates_are_short(number: float, shown: str) -> None:
    assert format_rate(number) == shown


def test_cells_have_the_form_of_their_column() -> None:
    assert format_cell(None, Form.RATE) == "-"
    assert format_cell(2.0, Form.CHANGE) == "+2.0"
    assert format_cell(-2.0, Form.CHANGE) == "-2.0"
    assert format_cell(1536, Form.BYTES) == "1.5K"
    assert format_cell("two\nlines \x1b[2J", Form.NAME) == "two lines �[2J"
