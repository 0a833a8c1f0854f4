"""A topology beside the cluster's topics: numbers of tasks and partitions, and what does not fit."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.broker.groups.streams.topology import (
    ConfiguredTopology,
    CopartitionedTopics,
    InternalTopic,
    StatusCode,
    StreamsSubtopology,
    StreamsTopology,
    configure,
)
from odradek.foundation.errors import StreamsInvalidTopology
from tests.support.streams_members import counting, subtopology


def configured(*subtopologies: StreamsSubtopology, **topics: int) -> ConfiguredTopology:
    return configure(StreamsTopology(0, subtopologies), topics.get)


def joined(*sources: int, repartition: tuple[int, ...] = ()) -> CopartitionedTopics:
    return CopartitionedTopics(sources, (), repartition)


def internal(name: str, partitions: int = 0) -> InternalTopic:
    return InternalTopic(name, partitions, 0)


def test_internal_topics_get_the_partitions_of_their_writers() -> None:
    found = configure(counting(), {"lines": 3}.get)
    assert found.subtopologies is not None
    assert {name: one.tasks for name, one in found.subtopologies.items()} == {"0": 3, "1": 3}
    assert [(topic.name, topic.partitions) for topic in found.missing] == [("r", 3), ("c", 3)]
    assert found.problem is not None
    assert found.problem.status_code is StatusCode.MISSING_INTERNAL_TOPICS
    assert found.problem.status_detail == "Internal topics are missing: r, c"
    assert configure(counting(), {"lines": 3, "r": 3, "c": 3}.get).is_ready


def test_a_chain_of_repartition_topics_takes_the_number_of_its_beginning() -> None:
    chain = [
        subtopology("0", "in", repartition_sink_topics=("a",)),
        subtopology("1", repartition_source_topics=(internal("a"),), repartition_sink_topics=("b", "fixed")),
        subtopology("2", repartition_source_topics=(internal("b"), internal("fixed", 7))),
    ]
    for order in (chain, chain[::-1]):
        found = configured(*order, **{"in": 4})
        assert found.subtopologies is not None
        assert {name: one.tasks for name, one in found.subtopologies.items()} == {"0": 4, "1": 4, "2": 7}


PROBLEMS: list[tuple[list[StreamsSubtopology], dict[str, int], StatusCode, str]] = [
    (
        [subtopology("0", *"dcba")],
        {"a": 1},
        StatusCode.MISSING_SOURCE_TOPICS,
        "Source topics b, c, d are missing.",
    ),
    (
        [subtopology("0", *"edcba")],
        {},
        StatusCode.MISSING_SOURCE_TOPICS,
        "Source topics a, b, c and 2 additional topics are missing.",
    ),
    (
        [subtopology("0", "a", "b", copartition_groups=(joined(0, 1),))],
        {"a": 1, "b": 2},
        StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
        "Following topics do not have the same number of partitions: [{a=1, b=2}]",
    ),
    (
        [
            subtopology(
                "0",
                "a",
                repartition_source_topics=(internal("r", 5),),
                copartition_groups=(joined(0, repartition=(0,)),),
            )
        ],
        {"a": 2},
        StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
        "Number of partitions [5] of repartition topic [r] doesn't match number of partitions [2] of the source topic.",
    ),
    (
        [subtopology("0", "a", state_changelog_topics=(internal("c"),))],
        {"a": 2, "c": 1},
        StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
        "Existing topic c has different number of partitions: expected 2, found 1",
    ),
]


@pytest.mark.parametrize(("subtopologies", "topics", "code", "detail"), PROBLEMS)
def test_topics_that_do_not_fit_are_told(
    subtopologies: list[StreamsSubtopology], topics: dict[str, int], code: StatusCode, detail: str
) -> None:
    found = configured(*subtopologies, **topics)
    assert found.problem == (code, detail)
    assert found.subtopologies is None


def test_a_joined_repartition_topic_follows_the_source() -> None:
    reader = subtopology("0", "wide", repartition_sink_topics=("r",))
    joiner = subtopology(
        "1",
        "a",
        repartition_source_topics=(internal("r"),),
        copartition_groups=(joined(0, repartition=(0,)),),
    )
    found = configured(reader, joiner, wide=6, a=2)
    assert [(topic.name, topic.partitions) for topic in found.missing] == [("r", 2)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"repartition_sink_topics": ("r",), "repartition_source_topics": (internal("r"),)},
        {"state_changelog_topics": (internal("c"),)},
        {"repartition_source_topics": (internal("r"),), "sources": ("a",)},
        {"copartition_groups": (joined(3),), "sources": ("a",)},
        {"copartition_groups": (joined(-1),), "sources": ("a",)},
    ],
    ids=["loop", "no source", "never written", "no such topic", "a place below 0"],
)
def test_a_topology_that_can_never_run_is_refused(wrong: dict[str, Any]) -> None:
    sources = wrong.pop("sources", ())
    with pytest.raises(StreamsInvalidTopology):
        configured(subtopology("0", *sources, **wrong), a=1)
