"""What the spans of a broker's requests say, and which requests have one."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from typing import Any

import pytest

from odradek.broker.requests.tracing.followers import FollowerWaits
from odradek.broker.requests.tracing.step import TracingStep
from odradek.broker.telemetry.spans import SpanContext, encode_tags
from odradek.foundation.errors import InvalidRequest
from odradek.network.pending import Pending
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.framing import REQUEST_TAGS
from odradek.wire.records.builder import build_batch
from tests.support.recorded_spans import RecordedSpans
from tests.support.whole_broker import WholeBroker

SAMPLED = SpanContext(7, 9, is_sampled=True)


async def traced(*, ratio: float = 1.0) -> tuple[WholeBroker, RecordedSpans]:
    broker = await WholeBroker.start()
    await broker.create_topic("t")
    spans = RecordedSpans()
    step = TracingStep(spans, followers=FollowerWaits(broker.broker.partitions), rng=random.Random(1))
    step.sampling_ratio = ratio
    broker.dispatcher.change_steps(lambda steps: [step, *steps])
    return broker, spans


async def test_a_span_says_who_asked_for_what() -> None:
    broker, spans = await traced()
    await broker.produce("t", b"a")
    (span,) = spans.begun
    assert span.name == "PRODUCE"
    assert span.child_names == ["handle"]
    assert span.parent is None
    assert span.error is None
    assert span.start_ns <= span.end_ns
    found = dict(span.attributes)
    assert found.pop("odradek.request.bytes") > 50  # type: ignore[operator]
    assert found == {
        "messaging.system": "kafka",
        "messaging.operation.name": "produce",
        "messaging.client.id": "test",
        "messaging.destination.name": "t",
        "network.peer.address": "client.test",
        "network.peer.port": 5000,
        "odradek.listener": "PLAINTEXT",
        "odradek.principal": "User:ANONYMOUS",
        "odradek.api.version": 9,
        "odradek.correlation_id": 7,
    }


async def test_a_fetch_by_topic_id_names_its_topic_and_its_wait() -> None:
    broker, spans = await traced()
    waiting = asyncio.ensure_future(
        broker.ask(ApiKey.FETCH, 12, **broker.fetch_fields(("t", 0, 0), max_wait_ms=400))
    )
    await asyncio.sleep(0.3)
    (span,) = spans.begun
    assert not span.end_ns
    await waiting
    assert span.attributes["messaging.destination.name"] == "t"
    assert span.child_names == ["handle", "wait"]
    assert span.end_ns == span.children[1][2]


async def test_an_error_of_a_handler_is_the_spans() -> None:
    broker, spans = await traced()
    failure = InvalidRequest("no")

    def fail(*_: object) -> Any:
        raise failure

    async def fail_later() -> Any:
        raise failure

    def pend(*_: object) -> Any:
        return Pending(fail_later())

    for answer in (fail, pend):
        broker.dispatcher.change_steps(partial(_put_behind_the_first, answer))
        await broker.ask(ApiKey.METADATA, 9, topics=[])
    assert [span.error for span in spans.begun] == [failure, failure]


def _put_behind_the_first(answer: Any, steps: tuple[Any, ...]) -> list[Any]:
    return [steps[0], answer]


async def test_only_a_part_of_the_requests_is_traced() -> None:
    broker, spans = await traced(ratio=0.2)
    for _ in range(500):
        await broker.ask(ApiKey.METADATA, 9, topics=[])
    assert 60 < len(spans.begun) < 140


@pytest.mark.parametrize(("is_sampled", "ratio"), [(True, 0.0), (False, 1.0)])
async def test_a_senders_decision_holds(is_sampled: bool, ratio: float) -> None:
    broker, spans = await traced(ratio=ratio)
    sender = SAMPLED._replace(is_sampled=is_sampled)
    token = REQUEST_TAGS.set(encode_tags(sender))
    try:
        await broker.ask(ApiKey.METADATA, 9, topics=[])
    finally:
        REQUEST_TAGS.reset(token)
    assert [span.parent for span in spans.begun] == ([sender] if is_sampled else [])


async def test_a_produce_request_joins_the_trace_of_its_first_record() -> None:
    broker, spans = await traced(ratio=0.0)
    batch = build_batch([(1, None, b"v", (("traceparent", SAMPLED.encode()),))])
    fields = {"name": "t", "partition_data": [{"index": 0, "records": bytes(batch)}]}
    await broker.ask(ApiKey.PRODUCE, 9, acks=1, timeout=1000, topic_data=[fields])
    await broker.produce("t", b"without a trace")
    assert [span.parent for span in spans.begun] == [SAMPLED]


async def test_requests_that_a_handler_makes_carry_its_span() -> None:
    broker, spans = await traced()
    seen: list[bytes] = []

    async def look() -> Any:
        seen.append(REQUEST_TAGS.get())
        await asyncio.sleep(1)
        seen.append(REQUEST_TAGS.get())
        await asyncio.create_task(look_within())
        raise InvalidRequest("seen")

    async def look_within() -> None:
        seen.append(REQUEST_TAGS.get())

    broker.dispatcher.change_steps(lambda steps: [steps[0], lambda *_: Pending(look())])
    await broker.ask(ApiKey.METADATA, 9, topics=[])
    assert seen == [encode_tags(spans.begun[0].context)] * 3
    assert REQUEST_TAGS.get() == b"\0"


async def test_a_request_whose_client_goes_ends_its_span() -> None:
    broker, spans = await traced()
    answer = broker.send(ApiKey.FETCH, 12, **broker.fetch_fields(("t", 0, 0), max_wait_ms=60_000))
    assert isinstance(answer, Pending)
    answer.cancel()
    (span,) = spans.begun
    assert span.children[-1][3] == {"odradek.cancelled": True}
    assert span.end_ns
