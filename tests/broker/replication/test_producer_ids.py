"""Numbers for idempotent producers: never one twice, and the next block is here before this one is used up."""

from __future__ import annotations

import asyncio

import pytest

from odradek.broker.replication.producer_ids import ProducerIds
from odradek.foundation.errors import CoordinatorLoadInProgress

COUNT = 10


class Controller:
    """Gives out blocks while it is there."""

    def __init__(self) -> None:
        self.is_there = True
        self.asked = 0
        self._next = 0

    async def allocate(self) -> tuple[int, int]:
        self.asked += 1
        await asyncio.sleep(1)
        if not self.is_there:
            raise CoordinatorLoadInProgress("no controller")
        first, self._next = self._next, self._next + COUNT
        return first, COUNT


async def test_a_broker_has_numbers_for_as_long_as_no_controller_is_there() -> None:
    controller = Controller()
    ids = ProducerIds(controller.allocate)
    ids.prepare()
    await asyncio.sleep(2)
    controller.is_there = False
    given = [await ids.next() for _ in range(COUNT)]
    with pytest.raises(CoordinatorLoadInProgress):
        await ids.next()
    controller.is_there = True
    given += [await ids.next() for _ in range(3 * COUNT)]
    assert given == list(range(4 * COUNT))
    await ids.stop()


async def test_the_next_block_is_asked_for_when_half_is_used_and_by_one_alone() -> None:
    controller = Controller()
    ids = ProducerIds(controller.allocate)
    assert sorted(await asyncio.gather(*(ids.next() for _ in range(4)))) == [0, 1, 2, 3]
    assert controller.asked == 1
    assert await ids.next() == 4
    await asyncio.sleep(2)
    assert controller.asked == 2
    for _ in range(COUNT // 2):
        await ids.next()
    await asyncio.sleep(2)
    assert controller.asked == 2, "one in use and one more are enough"
    await ids.stop()


async def test_a_question_under_way_ends_with_the_broker() -> None:
    ids = ProducerIds(Controller().allocate)
    ids.prepare()
    await ids.stop()
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.timeout(20)
async def test_a_number_is_given_in_the_turn_in_which_its_block_arrives() -> None:
    answer: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()

    async def allocate() -> tuple[int, int]:
        return await answer

    ids = ProducerIds(allocate)
    ids.prepare()
    await asyncio.sleep(0)
    # The request ends in the next turn, the caller begins after it in the same turn, and callbacks follow in another.
    answer.set_result((0, COUNT))
    assert await asyncio.ensure_future(ids.next()) == 0
    await ids.stop()
