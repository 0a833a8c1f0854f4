"""Each API is sent many elements: the cost stays linear.

They are 10,000 in `make test-all`. `make largest-requests` sends 100,000, and the most that a request may have, which
takes gigabytes of memory and ten minutes or more.

Time is the processor's, in the event loop, scaled by a yardstick that is measured beside it. Each turn has a bound,
which is that of the guard of costs. The frames stay below 100 MB, as does what is kept.
"""

from __future__ import annotations

import os

import pytest

from odradek.foundation.limits import REQUEST_ARRAY_ELEMENTS_MAX
from odradek.wire.protocol.schema import REQUEST, fields_of, message_class
from tests.fuzz import costs
from tests.fuzz.costs import CostWorld, run
from tests.support.large_requests import ROWS, LargeRequest

SENDS_LARGEST = os.environ.get("ODRADEK_LARGEST_REQUESTS") == "all"
TIMES = 10
# Ten times the elements may cost twenty times as much: quadratic cost is a hundred.
RATIO_MAX = 20
FRAME_BYTES_MAX = 100 << 20
TRIES = 3


def _depth(row: LargeRequest) -> int:
    """Arrays within each other: an element of the request has about one element of each."""

    def below(structure: object) -> int:
        found = [
            1 + (0 if field.structure is None else below(field.structure))
            for field in fields_of(structure)
            if field.is_array
        ]
        return max(found, default=0)

    return below(message_class(row.api, row.version, REQUEST))


def _largest(row: LargeRequest) -> int:
    return REQUEST_ARRAY_ELEMENTS_MAX * 9 // 10 // (1 + _depth(row))


async def _excess(name: str, size: int) -> list[str]:
    case = costs.row(name)
    assert len(case.body(size)) < FRAME_BYTES_MAX
    world = await CostWorld.start({})
    few, many = await world.cost(case, size // TIMES), await world.cost(case, size)
    await world.stop()
    slowness = costs._slowness()
    found = []
    if many.longest_seconds > costs.TURN_SECONDS_MAX * slowness:
        found.append(f"a turn of {many.longest_seconds * 1000:.0f} ms")
    if many.seconds > costs.SECONDS_COMPARED_MIN * slowness and many.seconds > RATIO_MAX * few.seconds:
        found.append(
            f"{TIMES} times the size costs {many.seconds / max(few.seconds, 1e-6):.0f} times the time"
        )
    if many.kept_bytes > 2 * costs.KEPT_BYTES_MAX:
        found.append(f"{many.kept_bytes >> 20} MB of memory that are not given back")
    return found


def _assert_cheap(name: str, size: int) -> None:
    found = run(_excess(name, size))
    for _ in range(TRIES - 1):  # other work of the machine may disturb one measurement
        if found:
            found = run(_excess(name, size))
    assert found == [], f"{name} of {size} elements: {found}"


@pytest.mark.thorough
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("size", [10_000, 100_000] if SENDS_LARGEST else [10_000])
def test_many_elements_cost_what_they_are(name: str, size: int) -> None:
    _assert_cheap(name, size)


@pytest.mark.thorough
@pytest.mark.skipif(not SENDS_LARGEST, reason="`make largest-requests` sends them")
@pytest.mark.parametrize("name", ROWS)
def test_the_largest_legal_request_costs_what_it_is(name: str) -> None:
    _assert_cheap(name, _largest(ROWS[name]))
