"""The benchmark's reckoning: medians, ratios and goals, in the table and in JSON."""

from __future__ import annotations

import json

from bench.questions import CLUSTER_QUESTIONS, COMMAND_LINE_QUESTIONS, QUESTIONS, Answers
from bench.report import document, table


def gathered() -> Answers:
    answers = Answers()
    for ours, kafkas in ((30.0, 10.0), (20.0, 20.0), (26.0, 20.0)):
        answers.add("produce 1 KB", "odradek", ours)
        answers.add("produce 1 KB", "kafka", kafkas)
    for peer, milliseconds in (("kafka", 4000.0), ("odradek", 251.0)):
        answers.add("exec to first ack", peer, milliseconds)
    return answers


def test_a_ratio_is_that_of_the_medians_and_each_round_has_its_own() -> None:
    produce, first_ack = gathered().listed()
    assert (produce.odradek, produce.other, produce.ratio) == (26.0, 20.0, 1.3)
    assert produce.round_ratios == [3.0, 1.0, 1.3]
    assert produce.is_met is True
    assert first_ack.is_met is False, "its goal is on our own value, whatever Kafka takes"


def test_a_question_without_a_goal_is_neither_met_nor_missed() -> None:
    answers = Answers()
    for peer in ("odradek", "kafka"):
        answers.add("end to end p50", peer, 1.0)
    (only,) = answers.listed()
    assert only.is_met is None


def test_a_table_has_even_columns_and_a_line_per_answer() -> None:
    lines = table(gathered().listed(), described="a machine").splitlines()
    assert lines[0] == "a machine"
    rows = lines[2:]
    assert len({len(row) for row in rows}) == 1
    assert [cell.strip() for cell in rows[2].strip("|").split("|")] == [
        *("produce 1 KB", "26.0", "20.0", "MB/s", "1.30", "1.00 to 3.00", "≥ 1.2 x", "yes")
    ]
    assert [cell.strip() for cell in rows[3].strip("|").split("|")][-1] == "no"


def test_json_holds_the_rounds() -> None:
    told = json.loads(document(gathered().listed(), described="a machine"))
    assert told["machine"] == "a machine"
    assert told["answers"][0]["rounds"] == {"odradek": [30.0, 20.0, 26.0], "kafka": [10.0, 20.0, 20.0]}
    assert {answer["question"] for answer in told["answers"]} < set(QUESTIONS)


def test_clusters_have_goals_of_their_own() -> None:
    answers = Answers(CLUSTER_QUESTIONS)
    for peer, rate in (("odradek", 28.0), ("kafka", 20.0)):
        answers.add("produce 1 KB", peer, rate)
    (only,) = answers.listed()
    assert (only.ratio, only.is_met) == (1.4, False)


def test_the_command_line_is_measured_beside_kcat() -> None:
    answers = Answers(COMMAND_LINE_QUESTIONS, other_name="kcat")
    for tool, seconds in (("odradek", 1.4), ("kcat", 0.7)):
        answers.add("produce --file, lines of 100 B", tool, seconds)
    (only,) = answers.listed()
    assert (only.ratio, only.is_met, only.round_ratios) == (2.0, True, [2.0])
    assert "| kcat |" in table([only], described="a machine")
    assert json.loads(document([only], described=""))["answers"][0]["kcat"] == 0.7
