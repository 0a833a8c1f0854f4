"""What a large request takes is given back some elements at a time, and in the thread: freeing is work too.

Python frees an array with all that it holds at once, and no thread runs until then.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from odradek.broker.requests import long_answers
from odradek.broker.requests.dispatch import CloseConnection, Dispatcher
from odradek.foundation.errors import InvalidRequest, OdradekError
from odradek.foundation.security_errors import ClusterAuthorizationFailed
from odradek.foundation.turn_limits import REQUEST_ELEMENTS_PER_TURN_MAX
from odradek.wire.protocol import messages
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.codec import decode_typed_request
from odradek.wire.protocol.framing import parse_request_header
from odradek.wire.protocol.requests import complete, find_nested_type, request_type
from odradek.wire.protocol.schema import REQUEST, RESPONSE, fields_of, message_class
from tests.support.large_requests import ROWS, LargeRequest
from tests.support.loop import VirtualTimeLoop, run
from tests.support.whole_broker import WholeBroker

COUNT = 8 * REQUEST_ELEMENTS_PER_TURN_MAX
GARBAGE_COUNT = 600
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:root",
}
# A part of the request, and what its answer is made of, may be freed together.
FREED_TOGETHER_MAX = 4 * REQUEST_ELEMENTS_PER_TURN_MAX
# These free single elements or one part in each step, in the thread.
IN_STEPS = {"free", "read"}


class _CountingLoop(VirtualTimeLoop):
    """Knows the number of its turn; work of the thread has none."""

    turn = 0

    def call_soon(  # type: ignore[override]  # as in the loop of virtual time
        self, callback: Any, *args: Any, context: Any = None
    ) -> Any:
        return super().call_soon(self._in_turn, callback, args, context=context)

    def _in_turn(self, callback: Any, args: Any) -> None:
        type(self).turn += 1
        callback(*args)


class _Freed:
    """Counts elements that are freed, by turn of the loop and by the function that runs."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[int, str]] = Counter()

    def note(self) -> None:
        running = sys._getframe(2).f_code.co_name
        self.counts[_CountingLoop.turn, running] += 1

    def most_together(self) -> int:
        return max((count for (_, name), count in self.counts.items() if name not in IN_STEPS), default=0)

    def in_steps(self) -> int:
        return sum(count for (_, name), count in self.counts.items() if name in IN_STEPS)


def _classes(structure: Any, request: type | None) -> Iterator[type]:
    """The classes of all elements below a message."""
    for field in fields_of(structure):
        if field.structure is not None:
            nested = find_nested_type(request, field.name)
            yield field.structure if nested is None else complete(field.structure, nested)
            yield from _classes(field.structure, nested)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[[LargeRequest], _Freed]:
    freed = _Freed()

    def begin(row: LargeRequest) -> _Freed:
        asked, answered = (message_class(row.api, row.version, kind) for kind in (REQUEST, RESPONSE))
        for kind in (*_classes(asked, request_type(row.api)), *_classes(answered, None)):
            monkeypatch.setattr(kind, "__del__", lambda _: freed.note(), raising=False)
        return freed

    return begin


def _run(row: LargeRequest, handle: Callable[[Any, Any], Any] | None = None, *, cut: int = 0) -> None:
    async def sent() -> None:
        whole = await WholeBroker.start()
        handles: dict[int, Any] | None = None if handle is None else {row.api: handle}
        dispatch = Dispatcher(whole.broker.parts, handles=handles)
        body = row.body(COUNT)
        answer = dispatch(whole.connection, body[: len(body) - cut])
        del body
        assert inspect.isawaitable(answer)
        try:
            await answer
        except OdradekError as failure:
            failure.with_traceback(None)
        del answer
        for _ in range(3):
            await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=_CountingLoop) as runner:
        runner.run(sent())


def _close(request: object, context: object) -> None:
    raise CloseConnection("a step ends it")


def _deny(request: object, context: object) -> None:
    raise ClusterAuthorizationFailed("denied")


@pytest.mark.parametrize("name", ["list offsets", "find coordinator", "describe groups", "metadata"])
def test_an_answered_request_is_freed_in_parts(name: str, counted: Callable[[LargeRequest], _Freed]) -> None:
    freed = counted(ROWS[name])
    _run(ROWS[name])
    assert freed.in_steps() >= COUNT, freed.counts
    assert freed.most_together() <= FREED_TOGETHER_MAX, freed.counts.most_common(3)


@pytest.mark.parametrize("name", ["list offsets", "create topics", "write transaction markers"])
@pytest.mark.parametrize("handle", [_deny, _close])
def test_a_request_that_fails_is_freed_in_parts(
    name: str, handle: Any, counted: Callable[[LargeRequest], _Freed]
) -> None:
    freed = counted(ROWS[name])
    _run(ROWS[name], handle)
    assert freed.in_steps() >= COUNT, freed.counts
    assert freed.most_together() <= FREED_TOGETHER_MAX, freed.counts.most_common(3)


@pytest.mark.parametrize("name", ["list offsets", "metadata"])
def test_a_request_that_cannot_be_read_is_freed_one_by_one(
    name: str, counted: Callable[[LargeRequest], _Freed]
) -> None:
    freed = counted(ROWS[name])
    _run(ROWS[name], cut=20)
    assert freed.in_steps() >= COUNT - 2
    assert freed.most_together() <= FREED_TOGETHER_MAX, freed.counts.most_common(3)


def test_arrays_of_any_depth_are_held_in_pieces() -> None:
    topics = [{"name": f"t{number}", "partition_indexes": list(range(600))} for number in range(600)]
    message = messages.request(ApiKey.OFFSET_FETCH, 5, group_id="g", topics=topics)
    held: list[tuple[object, ...]] = []
    long_answers._hold_arrays(message, held)
    assert max(map(len, held)) == REQUEST_ELEMENTS_PER_TURN_MAX
    assert sum(map(len, held)) == 600 + 600 * 600


def test_a_message_is_read_as_before_when_its_end_is_missing() -> None:
    row = ROWS["list offsets"]
    body = row.body(COUNT)
    header = parse_request_header(body)
    with pytest.raises(InvalidRequest, match="cut off"):
        decode_typed_request(row.api, row.version, body[:-20], header.body_position)


@pytest.mark.thorough
@pytest.mark.parametrize("with_authorizer", [False, True])
def test_no_request_leaves_garbage_for_each_element(with_authorizer: bool) -> None:
    """What only a search for garbage frees is freed at once, in a turn of another request."""

    async def left() -> dict[str, int]:
        whole = await WholeBroker.start(AUTHORIZER if with_authorizer else {})
        await whole.create_topic("known")
        dispatch = whole.broker.listeners[0]._dispatch
        found = {}
        for name, row in ROWS.items():
            body = row.body(GARBAGE_COUNT)
            gc.collect()
            gc.freeze()
            answer = dispatch(whole.connection, body)
            if inspect.isawaitable(answer):
                answer = await answer
            del answer, body
            await asyncio.sleep(0)
            found[name] = gc.collect()
        await whole.broker.stop()
        return {name: count for name, count in found.items() if count > GARBAGE_COUNT // 2}

    gc.disable()
    try:
        assert run(left()) == {}
    finally:
        gc.enable()
