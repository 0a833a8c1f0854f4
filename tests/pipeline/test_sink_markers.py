"""Which markers of a sink count: those whose transaction was committed, as far as the log was read."""

from __future__ import annotations

import pytest

from odradek.wire.records.batch import BatchView
from odradek.wire.records.builder import build_batch
from odradek.wire.records.control import build_marker
from odradek_pipeline.sink.markers import MarkerState, SinkMarker

MARKER = SinkMarker("query", batch=4, rows=10, digest=7)


def written(state: MarkerState, value: bytes | None, *, producer_id: int = 1) -> BatchView:
    """A batch with the marker of task 0, in a transaction."""
    return BatchView(
        build_batch(
            [(1000, state.key(0), value)],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
    )


def ended(*, producer_id: int = 1, is_commit: bool) -> BatchView:
    return BatchView(
        build_marker(
            producer_id=producer_id,
            producer_epoch=0,
            is_commit=is_commit,
            coordinator_epoch=0,
            timestamp_ms=1000,
        )
    )


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_task_has_written_once_its_transaction_is_committed(is_commit: bool) -> None:
    state = MarkerState.empty("orders", "markers")
    state.take(written(state, MARKER.encode()))
    assert state.committed == {}
    state.take(ended(producer_id=2, is_commit=True))
    assert state.committed == {}
    state.take(ended(is_commit=is_commit))
    assert state.committed == ({"0": MARKER} if is_commit else {})
    assert state.pending == {}


def test_a_tombstone_takes_a_marker_away() -> None:
    state = MarkerState.empty("orders", "markers")
    for value in (MARKER.encode(), None):
        state.take(written(state, value))
        state.take(ended(is_commit=True))
    assert state.committed == {}


def test_markers_of_other_sinks_are_passed_over() -> None:
    state = MarkerState.empty("orders", "markers")
    other = MarkerState.empty("orders2", "markers")
    state.take(written(other, MARKER.encode()))
    state.take(ended(is_commit=True))
    assert state.committed == {}
