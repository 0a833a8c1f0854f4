"""The dispatcher: what it counts, how failing handlers are answered, what closes a connection, faults on demand."""

import asyncio
from typing import Any

import pytest

from odradek.broker.process.testing_faults import Faults, FaultStep
from odradek.broker.requests.context import AnyContext
from odradek.broker.requests.dispatch import Dispatcher, Step
from odradek.broker.requests.loading import Answer, Handle
from odradek.foundation.errors import InvalidRequest, NotController, OdradekError
from odradek.foundation.security_errors import GroupAuthorizationFailed
from odradek.network.pending import Pending
from odradek.wire.protocol.api import ApiKey
from tests.support.whole_broker import WholeBroker


def with_handler(broker: WholeBroker, api: ApiKey, handle: Any) -> None:
    broker.dispatcher._handles[api] = handle


async def test_requests_times_and_bytes_are_counted() -> None:
    broker = await WholeBroker.start()
    await broker.create_topic("t")
    await broker.ask(ApiKey.METADATA, 9, topics=None)
    await broker.ask(ApiKey.FETCH, 11, **broker.fetch_fields(("t", 0, 0), max_wait_ms=100))
    for api in (ApiKey.METADATA, ApiKey.FETCH):
        counters = broker.broker.counters.by_api[api]
        assert counters.requests == sum(counters.buckets) == 1
        assert counters.request_bytes > 0
        assert counters.response_bytes > 0
        assert counters.failures == 0


@pytest.mark.parametrize("is_later", [False, True])
@pytest.mark.parametrize(("error", "code"), [(NotController("elsewhere"), 41), (ValueError("secret"), -1)])
async def test_a_handler_that_fails_is_answered_in_its_shape(
    error: Exception, code: int, is_later: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def at_once(request: Any, context: Any) -> Any:
        raise error

    def later(request: Any, context: Any) -> Any:
        return Pending(fail())

    async def fail() -> Any:
        await asyncio.sleep(1)
        raise error

    broker = await WholeBroker.start()
    with_handler(broker, ApiKey.DESCRIBE_GROUPS, later if is_later else at_once)
    answer = await broker.ask(ApiKey.DESCRIBE_GROUPS, 5, groups=["g"])
    assert [int(group.error_code) for group in answer.groups] == [code]
    counters = broker.broker.counters.by_api[ApiKey.DESCRIBE_GROUPS]
    assert (counters.failures, counters.requests) == (1, 1)
    await broker.broker.stop()
    assert ("secret" in caplog.text) is (code == -1)


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        ("0000", "too short"),
        ("0026 0000 00000001 ffff", "not served"),
        ("0000 0002 00000001 ffff", "versions 3 to 13"),
        ("0001 0013 00000001 ffff 00", "version 19 is not served"),
        ("7000 0000 00000001 ffff", "does not exist"),
        ("0003 0001 00000001 ffff 00ffff", "METADATA"),
    ],
)
async def test_what_cannot_be_served_closes_the_connection(frame: str, words: str) -> None:
    broker = await WholeBroker.start()
    with pytest.raises(InvalidRequest, match=words):
        broker.dispatcher(broker.connection, memoryview(bytearray.fromhex(frame)))
    assert broker.broker.counters.malformed == 1


async def test_steps_wrap_every_handler_and_the_first_is_outermost() -> None:
    seen: list[tuple[str, ApiKey]] = []

    def step(name: str) -> Step:
        def around(handle: Handle, request: object, context: AnyContext) -> Answer:
            seen.append((f"before {name}", ApiKey(context.header.api_key)))
            answer = handle(request, context)
            seen.append((f"after {name}", ApiKey(context.header.api_key)))
            return answer

        return around

    broker = await WholeBroker.start()
    await broker.create_topic("t")
    broker.dispatcher = Dispatcher(broker.broker.parts, steps=[step("outer"), step("inner")])
    answer = await broker.produce("t", b"a")
    assert answer.error_code == 0
    await broker.ask(ApiKey.LIST_GROUPS, 4)
    order = ["before outer", "before inner", "after inner", "after outer"]
    assert seen == [(name, api) for api in (ApiKey.PRODUCE, ApiKey.LIST_GROUPS) for name in order]


async def test_a_step_refuses_in_the_shape_of_the_api() -> None:
    def refuse(handle: Handle, request: object, context: AnyContext) -> Answer:
        raise GroupAuthorizationFailed("not you")

    broker = await WholeBroker.start()
    broker.dispatcher = Dispatcher(broker.broker.parts, steps=[refuse])
    answer = await broker.ask(ApiKey.DESCRIBE_GROUPS, 5, groups=["g"])
    assert [int(group.error_code) for group in answer.groups] == [30]


async def faulty() -> tuple[WholeBroker, Faults]:
    broker = await WholeBroker.start()
    await broker.create_topic("t")
    faults = Faults()
    broker.dispatcher = Dispatcher(broker.broker.parts, steps=[FaultStep(faults)])
    return broker, faults


async def test_a_fault_answers_with_its_error_as_often_as_asked() -> None:
    broker, faults = await faulty()
    faults.add(api="Produce", error="NOT_LEADER_OR_FOLLOWER", times=2, after=1)
    codes = [(await broker.produce("t", b"a")).error_code for _ in range(4)]
    assert codes == [0, 6, 6, 0]
    assert broker.broker.partitions.get("t", 0).high_watermark == 2
    faults.add(api="fetch", error=56)
    answer = await broker.ask(ApiKey.FETCH, 11, **broker.fetch_fields(("t", 0, 0)))
    assert answer.responses[0].partitions[0].error_code == 56
    faults.add(api="find_coordinator", error="COORDINATOR_NOT_AVAILABLE")
    answer = await broker.ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g"])
    assert answer.coordinators[0].error_code == 15
    faults.clear()
    answer = await broker.ask(ApiKey.FETCH, 11, **broker.fetch_fields(("t", 0, 0)))
    assert answer.responses[0].partitions[0].error_code == 0


async def test_a_fault_holds_answers_back_or_closes_the_connection() -> None:
    broker, faults = await faulty()
    faults.add(api="Metadata", delay_ms=700, times=1)
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert (await broker.ask(ApiKey.METADATA, 9, topics=None)).topics
    assert loop.time() - began == pytest.approx(0.7)
    faults.add(api="Metadata", disconnect=True)
    with pytest.raises(OdradekError, match="fault"):
        broker.send(ApiKey.METADATA, 9, topics=None)


@pytest.mark.parametrize(
    "fields", [{"api": "Nothing", "error": 1}, {"api": "Fetch", "error": "WHAT"}, {"api": "Fetch"}]
)
def test_faults_that_make_no_sense_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Faults().add(**fields)
