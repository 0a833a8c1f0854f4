"""What asks share coordinators for states: a coordinator that does not answer is followed by its successor."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek.broker.share_states.client import ShareStateClient
from odradek.broker.share_states.states import ShareKey, ShareState, StateChange
from odradek.foundation.errors import BrokerNotAvailable, FrameError, OdradekError, RequestTimedOut
from odradek.metadata.image.image import ImageHolder
from odradek.metadata.image.topic_names import SHARE_GROUP_STATE
from tests.support.coordinator_world import image, topic_id
from tests.support.share_states import MemoryShareStates

KEY = ShareKey("g", topic_id("work"), 0)
OWN, OTHER = 1, 2


class Successor:
    """The coordinator of this broker, as the client calls it."""

    def __init__(self, states: MemoryShareStates) -> None:
        self._states = states

    def initialize(self, key: ShareKey, *, state_epoch: int, start_offset: int) -> None:
        self._states.states[key] = ShareState(state_epoch, start_offset)

    def delete(self, key: ShareKey) -> None:
        self._states.states.pop(key, None)

    def write(self, key: ShareKey, change: StateChange) -> Awaitable[None]:
        return self._states.write(key, change)

    def read(self, key: ShareKey, *, leader_epoch: int) -> Awaitable[ShareState]:
        return self._states.read(key, leader_epoch=leader_epoch)

    def summarize(self, key: ShareKey) -> ShareState:
        return self._states.states[key]


class LeavingCoordinator:
    """Answers nothing: at the first request this broker takes its place."""

    def __init__(self, images: ImageHolder, error: Exception) -> None:
        self._images = images
        self._error = error

    async def send(self, broker_id: int, request: object) -> None:
        assert broker_id == OTHER
        self._images.replace(image({"work": 1, SHARE_GROUP_STATE: [OWN]}, brokers=[OWN]))
        raise self._error


@pytest.mark.parametrize(
    "error",
    [
        BrokerNotAvailable("it is not registered"),
        RequestTimedOut("no answer"),
        ConnectionError("refused"),
        FrameError("no frame"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.initialize("g", {KEY.topic_id: {0: 5}}, state_epoch=1),
        lambda client: client.read(KEY, leader_epoch=0),
        lambda client: client.write(KEY, StateChange(0, 0, 5, 0, ())),
        lambda client: client.summarize("g", {KEY.topic_id: [0]}),
        lambda client: client.delete("g", {KEY.topic_id: [0]}),
    ],
    ids=["initialize", "read", "write", "summarize", "delete"],
)
async def test_a_coordinator_that_has_left_is_followed_by_its_successor(
    ask: Callable[[ShareStateClient], Awaitable[Any]], error: Exception
) -> None:
    images = ImageHolder(image({"work": 1, SHARE_GROUP_STATE: [OTHER]}, brokers=[OWN, OTHER]))
    states = MemoryShareStates()
    states.states[KEY] = ShareState(0, 5)

    async def make_topic() -> None:
        raise AssertionError("the topic is there")

    client = ShareStateClient(
        LeavingCoordinator(images, error),  # type: ignore[arg-type]
        images,
        broker_id=OWN,
        local=lambda: Successor(states),  # type: ignore[arg-type, return-value]
        ensure_topic=make_topic,
    )
    found = await ask(client)
    errors = found.values() if isinstance(found, dict) else [found]
    assert not any(isinstance(one, OdradekError) for one in errors)
    assert client.requests == 1
    await client.stop()
