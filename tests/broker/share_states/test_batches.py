"""State batches beside a model that has the state of each offset."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.share_states.batches import StateBatches
from odradek.broker.share_states.states import StateRange


@st.composite
def batches(draw: st.DrawFn) -> StateRange:
    first = draw(st.integers(0, 40))
    last = first + draw(st.integers(0, 12))
    return StateRange(first, last, draw(st.sampled_from((0, 2, 4))), draw(st.integers(0, 3)))


@given(st.lists(st.one_of(batches(), st.integers(0, 40)), max_size=30))
def test_batches_say_the_furthest_state_of_each_offset(changes: list[StateRange | int]) -> None:
    kept = StateBatches()
    model: dict[int, tuple[int, int]] = {}
    for change in changes:
        if isinstance(change, int):
            kept.cut_below(change)
            model = {offset: state for offset, state in model.items() if offset >= change}
        else:
            kept.put(change)
            for offset in range(change.first_offset, change.last_offset + 1):
                state = change.delivery_count, change.delivery_state
                model[offset] = max(model.get(offset, state), state)
        said = {
            offset: (one.delivery_count, one.delivery_state)
            for one in kept
            for offset in range(one.first_offset, one.last_offset + 1)
        }
        assert said == model
        pairs = list(zip(kept, list(kept)[1:], strict=False))
        assert all(one.last_offset < other.first_offset for one, other in pairs)
        touching = [(one, other) for one, other in pairs if one.last_offset + 1 == other.first_offset]
        assert all(one[2:] != other[2:] for one, other in touching), "two batches that one could be"
