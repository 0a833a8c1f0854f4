"""A tool that measures lag asks a broker how old the next records of a group are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from odradek.foundation.limits import RECORD_TIMES_BYTES_MAX, RECORD_TIMES_PER_REQUEST_MAX
from odradek.server.http.record_times import (
    describable,
    parse_offsets,
    parse_question,
    record_times,
)
from odradek.server.http.visible_names import names_for
from tests.support.rights import DESCRIBE, TOPIC, acl
from tests.support.whole_broker import WholeBroker


async def test_each_offset_has_the_time_of_its_batch() -> None:
    broker = await WholeBroker.start()
    await broker.create_topic("t", partitions=2)
    await broker.produce("t", b"a", b"b", timestamp_ms=5000)
    await broker.produce("t", b"c", timestamp_ms=7000)
    for offset, expected in ((0, 5000), (1, 5000), (2, 7000)):
        assert await record_times(broker.broker, {("t", 0): offset}) == {"t": {"0": expected}}
    nothing = {("t", 0): 3, ("t", 1): 0, ("t", 2): 0, ("other", 0): 0}
    assert await record_times(broker.broker, nothing) == {}


def test_what_is_no_question_is_refused() -> None:
    assert parse_offsets({"t": {"0": 5, "1": 0}}) == {("t", 0): 5, ("t", 1): 0}
    bodies: list[Any] = [
        [],
        {"t": 1},
        {"t": {"x": 1}},
        {"t": {"0": "1"}},
        {"t": {"0": -1}},
        {"t": {"0": True}},
    ]
    for body in bodies:
        with pytest.raises(ValueError, match=r"must be|is not an offset"):
            parse_offsets(body)
    with pytest.raises(ValueError, match="ask for at most"):
        parse_offsets({"t": {str(index): 0 for index in range(RECORD_TIMES_PER_REQUEST_MAX + 1)}})


def test_a_body_that_is_too_large_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {f"{number:0249}": {"0": 2**40} for number in range(RECORD_TIMES_PER_REQUEST_MAX)}
    assert len(parse_question(json.dumps(names).encode())) == RECORD_TIMES_PER_REQUEST_MAX
    monkeypatch.setattr("odradek.server.http.record_times.parse_json", None)
    with pytest.raises(ValueError, match="allowed are"):
        parse_question(bytes(RECORD_TIMES_BYTES_MAX + 1))


async def test_with_an_authorizer_only_what_the_caller_may_describe_is_answered() -> None:
    guarded = await WholeBroker.start_guarded()
    await guarded.allow(acl(DESCRIBE, TOPIC, "seen", principal="User:ANONYMOUS"))
    asked = {("seen", 0): 0, ("hidden", 0): 0}
    broker = guarded.broker
    assert describable(asked, names_for(broker, "10.0.0.7")) == {("seen", 0): 0}
    assert describable(asked, names_for(broker, "::1")) == asked
    await guarded.stop()
    unguarded = await WholeBroker.start()
    assert describable(asked, names_for(unguarded.broker, "10.0.0.7")) == asked
    await unguarded.stop()
