"""Brokers get changes as they happen, in order, and the controller knows how many each has applied."""

import asyncio
from collections.abc import Awaitable, Callable

from odradek.metadata.controller.metadata_subscribers import MetadataSubscribers
from odradek.metadata.image.change_log import ChangeLog, NodeChange
from odradek.wire.protocol.cluster_changes import FollowRequest, FollowResponse, parse_response
from tests.support.loop import run
from tests.support.stories import told_by


def change(number: int) -> NodeChange:
    return NodeChange(f"/n/{number}", b"x", number)


def request(
    *, epoch: int = 4, number: int = 0, wait_ms_max: int = 5_000, broker_id: int = 1
) -> FollowRequest:
    return FollowRequest(9, "broker", broker_id, 77, epoch, number, wait_ms_max)


def read(frame: bytes) -> FollowResponse:
    return parse_response(memoryview(frame)[4:])


def story(scenario: Callable[[ChangeLog, MetadataSubscribers], Awaitable[None]]) -> None:
    async def whole() -> None:
        log = ChangeLog(4, [NodeChange("/begun", b"y")])
        await scenario(log, MetadataSubscribers(log))

    run(whole())


@told_by(story, gives=2)
async def test_a_new_subscriber_gets_everything_at_once(
    log: ChangeLog, subscribers: MetadataSubscribers
) -> None:
    answer = subscribers.answer(request(epoch=-1))
    assert isinstance(answer, bytes)
    response = read(answer)
    assert (response.is_snapshot, response.nodes) == (True, (("/begun", b"y", 0),))
    assert (response.correlation_id, response.controller_epoch, response.next_number) == (9, 4, 0)
    assert subscribers.get_applied(1) == -1


@told_by(story, gives=2)
async def test_a_subscriber_that_has_everything_waits_for_a_change(
    log: ChangeLog, subscribers: MetadataSubscribers
) -> None:
    first, second = subscribers.answer(request()), subscribers.answer(request(broker_id=2))
    assert isinstance(first, asyncio.Future)
    assert isinstance(second, asyncio.Future)
    await asyncio.sleep(1)
    assert not first.done()
    log.append([change(0), change(1)])
    for answer in (first, second):
        response = read(await answer)
        assert [NodeChange(*node) for node in response.nodes] == [change(0), change(1)]
        assert (response.is_snapshot, response.is_complete, response.next_number) == (False, True, 2)
    assert not subscribers.have_applied(2, [1, 2])
    subscribers.answer(request(number=2))
    assert subscribers.have_applied(2, [1])
    assert not subscribers.have_applied(2, [1, 2])
    subscribers.forget(1)
    assert subscribers.get_applied(1) == -1


@told_by(story, gives=2)
async def test_without_a_change_the_answer_comes_when_the_time_is_up(
    log: ChangeLog, subscribers: MetadataSubscribers
) -> None:
    loop = asyncio.get_running_loop()
    for asked_ms, waited_seconds in ((700, 0.7), (10**9, 30), (-5, 0)):
        began = loop.time()
        answer = subscribers.answer(request(wait_ms_max=asked_ms))
        assert isinstance(answer, asyncio.Future)
        assert read(await answer).nodes == ()
        assert abs(loop.time() - began - waited_seconds) < 0.01


@told_by(story, gives=2)
async def test_the_end_of_a_term_and_a_lost_connection_leave_nothing_behind(
    log: ChangeLog, subscribers: MetadataSubscribers
) -> None:
    answer, lost = subscribers.answer(request()), subscribers.answer(request(broker_id=2))
    assert isinstance(answer, asyncio.Future)
    assert isinstance(lost, asyncio.Future)
    lost.cancel()
    await asyncio.sleep(0)
    subscribers.end()
    assert read(await answer).nodes == ()
    log.append([change(0)])
    assert not subscribers._waiting
