"""Which checkpoints are written, and which offsets go to groups of the target."""

from __future__ import annotations

import pytest

from odradek.client.results import CommittedOffset
from odradek.foundation.ids import TopicPartition
from odradek.mirror.checkpoints import next_checkpoint, translate_offsets
from odradek.mirror.flow_positions import offsets_to_write
from odradek.mirror.formats import Checkpoint

SOURCE, TARGET = TopicPartition("orders", 0), TopicPartition("a.orders", 0)


def at(source: int, target: int, metadata: str = "") -> Checkpoint:
    return Checkpoint("g", TARGET, source, target, metadata)


def committed(offset: int, metadata: str = "") -> CommittedOffset:
    return CommittedOffset(offset=offset, leader_epoch=3, metadata=metadata)


@pytest.mark.parametrize(
    ("now", "last", "written"),
    [
        (at(0, 0), None, at(0, 0)),  # offset 0 is one as well (KAFKA-10048)
        (at(5, 7), at(5, 7), None),
        (at(5, 7, "new"), at(5, 7, "old"), at(5, 7, "new")),
        (at(9, 11), at(5, 7), at(9, 11)),
        (at(5, 9), at(5, 7), at(5, 9)),  # more is known than before
        (at(5, 3), at(5, 7), None),  # less is known, after a restart
        (at(6, 3), at(5, 7), at(6, 7)),
        (at(2, 3), at(5, 7), at(2, 3)),  # the group was sent back
    ],
)
def test_a_group_that_goes_on_never_goes_back(
    now: Checkpoint, last: Checkpoint | None, written: Checkpoint | None
) -> None:
    assert next_checkpoint(now, last) == written


def test_without_a_mapping_there_is_no_checkpoint() -> None:
    """The literal offset was written then (KAFKA-12635, KAFKA-13452)."""
    found = translate_offsets(
        "g", {SOURCE: committed(5)}, translate=lambda *_: None, targets={SOURCE: TARGET}
    )
    assert found == {}


def test_partitions_of_other_workers_are_left_to_them() -> None:
    offsets = {SOURCE: committed(5, "m"), TopicPartition("orders", 1): committed(6)}
    found = translate_offsets(
        "g", offsets, translate=lambda _, offset: offset + 100, targets={SOURCE: TARGET}
    )
    assert found == {TARGET: at(5, 105, "m")}


@pytest.mark.parametrize(
    ("translated", "known", "log_start", "written"),
    [
        (10, None, 0, 10),
        (0, None, 0, 0),
        (10, 9, 0, 10),
        (10, 10, 0, None),
        (10, 30, 0, None),  # never backwards
        (10, None, 25, 25),  # the target's retention removed what is below
        (10, 20, 25, 25),
        (10, 30, 25, None),
    ],
)
def test_offsets_of_a_group_only_rise(
    translated: int, known: int | None, log_start: int, written: int | None
) -> None:
    found = offsets_to_write(
        {TARGET: at(7, translated, "m")},
        committed={} if known is None else {TARGET: committed(known)},
        log_starts={TARGET: log_start},
    )
    expected = (
        {} if written is None else {TARGET: CommittedOffset(offset=written, leader_epoch=-1, metadata="m")}
    )
    assert found == expected
