"""Leader epochs: where each ends, what truncation leaves, and Kafka's file."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.storage.checkpoints import CheckpointDamagedError
from odradek.storage.epochs import EpochEntry, LeaderEpochs
from odradek.storage.files import SystemDisk
from tests.support.disk import SimulatedDisk


def _epochs(*pairs: tuple[int, int]) -> LeaderEpochs:
    epochs = LeaderEpochs()
    for epoch, start_offset in pairs:
        epochs.assign(epoch=epoch, start_offset=start_offset)
    return epochs


def test_the_end_of_an_epoch_is_the_start_of_the_next() -> None:
    epochs = _epochs((2, 0), (3, 10), (7, 25))

    def end(epoch: int) -> tuple[int, int]:
        return epochs.end_offset_for(epoch, log_end_offset=40)

    assert end(7) == (7, 40)
    assert end(3) == (3, 25)
    assert end(2) == (2, 10)
    assert end(5) == (3, 25)  # never seen here: the newest below it
    assert end(1) == (1, 0)  # older than all that is known
    assert end(8) == (-1, -1)
    assert end(-1) == (-1, -1)
    assert LeaderEpochs().end_offset_for(0, log_end_offset=5) == (-1, -1)


def test_an_epoch_is_noted_once_at_its_first_offset() -> None:
    epochs = _epochs((0, 0))
    assert not epochs.assign(epoch=0, start_offset=5)
    assert not epochs.assign(epoch=-1, start_offset=5)
    assert epochs.assign(epoch=1, start_offset=5)
    assert epochs.entries == [EpochEntry(0, 0), EpochEntry(1, 5)]
    assert epochs.latest_epoch == 1


def test_an_entry_drops_those_that_it_contradicts() -> None:
    assert _epochs((0, 0), (1, 10), (2, 20), (3, 15)).entries == [(0, 0), (1, 10), (3, 15)]
    assert _epochs((0, 0), (5, 10), (4, 12)).entries == [(0, 0), (4, 12)]
    assert _epochs((0, 0), (1, 0)).entries == [(1, 0)]
    assert _epochs((3, 10), (3, 4)).entries == [(3, 4)]


def test_the_epoch_of_an_offset() -> None:
    epochs = _epochs((2, 5), (4, 10))
    assert [epochs.epoch_for_offset(offset) for offset in (0, 4, 5, 9, 10, 99)] == [-1, -1, 2, 2, 4, 4]


def test_truncation_from_the_end() -> None:
    epochs = _epochs((0, 0), (1, 10), (2, 20))
    epochs.truncate_from_end(25)
    assert len(epochs) == 3
    epochs.truncate_from_end(20)
    assert epochs.entries == [(0, 0), (1, 10)]
    epochs.truncate_from_end(0)
    assert len(epochs) == 0
    assert epochs.latest_epoch == -1


def test_truncation_from_the_start_moves_the_epoch_that_spans_it() -> None:
    epochs = _epochs((0, 0), (1, 10), (2, 20))
    epochs.truncate_from_start(0)
    assert epochs.entries == [(0, 0), (1, 10), (2, 20)]
    epochs.truncate_from_start(15)
    assert epochs.entries == [(1, 15), (2, 20)]
    epochs.truncate_from_start(20)
    assert epochs.entries == [(2, 20)]
    epochs.truncate_from_start(99)
    assert epochs.entries == [(2, 99)]
    epochs.truncate_from_start(50)
    assert epochs.entries == [(2, 99)]


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 40)), max_size=20), st.integers(0, 9))
def test_entries_always_rise_and_answers_agree_with_a_scan(pairs: list[tuple[int, int]], asked: int) -> None:
    epochs = _epochs(*pairs)
    entries = epochs.entries
    for left, right in itertools.pairwise(entries):
        assert left.epoch < right.epoch
        assert left.start_offset < right.start_offset
    found = epochs.end_offset_for(asked, log_end_offset=41)
    if not entries or asked > entries[-1].epoch:
        assert found == (-1, -1)
        return
    above = [entry.start_offset for entry in entries if entry.epoch > asked]
    below = [entry.epoch for entry in entries if entry.epoch <= asked]
    assert found == (below[-1] if below else asked, above[0] if above else 41)


def test_the_file_is_kafkas_and_follows_every_change(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    epochs = LeaderEpochs.load(disk=SystemDisk(), path=str(path))
    assert len(epochs) == 0
    assert not path.exists()
    epochs.assign(epoch=0, start_offset=0)
    epochs.assign(epoch=3, start_offset=1042)
    assert path.read_bytes() == b"0\n2\n0 0\n3 1042\n"
    epochs.truncate_from_end(1042)
    assert path.read_bytes() == b"0\n1\n0 0\n"
    epochs.clear()
    assert path.read_bytes() == b"0\n0\n"
    path.write_bytes(b"0\n2\n4 10\n6 20\n")
    assert LeaderEpochs.load(disk=SystemDisk(), path=str(path)).entries == [(4, 10), (6, 20)]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"0\n",
        b"1\n0\n",
        b"0\n2\n0 0\n",
        b"0\n1\n0\n",
        b"0\n1\nx y\n",
        b"0\n2\n1 5\n1 6\n",
        b"0\n2\n1 5\n2 4\n",
        b"\xff\xfe\n0\n",
    ],
)
def test_a_damaged_file_is_said_to_be_so(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_bytes(content)
    with pytest.raises(CheckpointDamagedError, match="leader-epoch-checkpoint"):
        LeaderEpochs.load(disk=SystemDisk(), path=str(path))


def test_what_could_not_be_written_is_news_again() -> None:
    disk = SimulatedDisk()
    disk.make_directory("/t-0")
    epochs = LeaderEpochs(disk=disk, path="/t-0/epochs")
    assert epochs.assign(epoch=1, start_offset=5)
    disk.capacity_bytes = 0
    with pytest.raises(OSError, match="No space"):
        epochs.assign(epoch=3, start_offset=2)
    assert epochs.entries == [EpochEntry(1, 5)]
    disk.capacity_bytes = None
    assert epochs.assign(epoch=3, start_offset=2)
    assert LeaderEpochs.load(disk=disk, path="/t-0/epochs").entries == [EpochEntry(3, 2)]
