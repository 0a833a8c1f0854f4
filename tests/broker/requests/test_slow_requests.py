"""The log of slow requests: what counts as slow, what a line names, and how many lines there are."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from odradek.broker.requests import dispatch, slow_requests
from odradek.broker.requests.counters import RequestCounters
from odradek.foundation.turn_limits import SLOW_REQUEST_LINES_PER_MINUTE_MAX
from odradek.network.connection import Connection
from odradek.network.pending import Pending
from odradek.wire.protocol.api import ApiKey
from tests.server.test_broker_metrics import labels, scrape
from tests.support.log_lines import Log
from tests.support.whole_broker import WholeBroker, batch

ON = {"slow.request.log.ms": "1000"}


@pytest.fixture(autouse=True)
def virtual_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dispatcher's clock is the loop's."""
    for module in (dispatch, slow_requests):
        monkeypatch.setattr(module, "monotonic", lambda: asyncio.get_running_loop().time())


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Any:
    """The fields of the lines so far."""
    caplog.set_level(logging.WARNING, slow_requests.__name__)
    return lambda: [record.fields for record in caplog.records if hasattr(record, "fields")]


def slow_down(broker: WholeBroker, api: ApiKey, seconds: float) -> None:
    """Let the handler of an API answer this much later."""
    broker.dispatcher._load(api)
    handle: Any = broker.dispatcher._handles[api]

    async def later(request: Any, context: Any) -> Any:
        await asyncio.sleep(seconds)
        answer = handle(request, context)
        return await answer if isinstance(answer, Pending) else answer

    broker.dispatcher._handles[api] = lambda request, context: Pending(later(request, context))


async def begun(settings: dict[str, str] | None = None) -> WholeBroker:
    broker = await WholeBroker.start(ON if settings is None else settings)
    await broker.create_topic("orders")
    return broker


def slow_count(broker: WholeBroker, api: str) -> float:
    return scrape(broker)["odradek_slow_requests_total", labels(api=api)]


async def test_a_line_names_the_client_the_parts_of_the_time_and_the_topic(lines: Any) -> None:
    broker = await begun()
    slow_down(broker, ApiKey.PRODUCE, 2)
    await broker.produce("orders", b"x", acks=1)
    (found,) = lines()
    request_bytes, response_bytes = found.pop("request_bytes"), found.pop("response_bytes")
    assert request_bytes > 50 and response_bytes > 20
    assert found.pop("correlation_id") >= 0 and found.pop("version") >= 3
    assert found == {
        "api": "PRODUCE",
        "client_id": "test",
        "principal": "User:ANONYMOUS",
        "peer": "client.test:5000",
        "listener": "PLAINTEXT",
        "queued_ms": 0,
        "handling_ms": 2000,
        "waiting_ms": 0,
        "topic": "orders",
    }
    assert slow_count(broker, "PRODUCE") == 1


async def test_the_time_that_a_fetch_wants_to_wait_does_not_count(lines: Any) -> None:
    broker = await begun()
    fields = broker.fetch_fields(("orders", 0, 0), max_wait_ms=5000)
    await broker.ask(ApiKey.FETCH, 11, **fields)
    assert lines() == []
    slow_down(broker, ApiKey.FETCH, 1.5)
    await broker.ask(ApiKey.FETCH, 11, **fields)
    (found,) = lines()
    assert (found["waiting_ms"], found["handling_ms"], found["topic"]) == (5000, 1500, "orders")


async def test_what_members_and_acks_of_all_wait_for_does_not_count(lines: Any) -> None:
    broker = await begun({**ON, "group.initial.rebalance.delay.ms": "3000"})
    await broker.ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g"])
    await broker.broker.coordinators.groups.runtime.wait_until_loaded()
    protocols = [{"name": "range", "metadata": b""}]
    fields = {"session_timeout": 30_000, "rebalance_timeout": 30_000, "protocol_type": "consumer"}
    for member_id in ("", "m"):
        answer = await broker.ask(
            ApiKey.JOIN_GROUP, 3, group_id="g", member_id=member_id, protocols=protocols, **fields
        )
    assert int(answer.error_code) in (0, 25)
    slow_down(broker, ApiKey.PRODUCE, 2)
    await broker.produce("orders", b"x", acks=-1)
    assert lines() == []


async def test_groups_and_several_topics_are_named(lines: Any) -> None:
    broker = await begun()
    for api in (ApiKey.HEARTBEAT, ApiKey.METADATA, ApiKey.DESCRIBE_GROUPS, ApiKey.OFFSET_FETCH):
        slow_down(broker, api, 2)
    await broker.ask(
        ApiKey.HEARTBEAT, 3, group_id="g", generation_id=1, member_id="m", group_instance_id=None
    )
    await broker.ask(ApiKey.METADATA, 9, topics=[{"name": "orders"}, {"name": "bills"}])
    await broker.ask(ApiKey.DESCRIBE_GROUPS, 5, groups=["first", "second"])
    await broker.ask(ApiKey.METADATA, 9, topics=None)
    named = [(one["api"], one.get("group"), one.get("topic"), one.get("topics")) for one in lines()]
    assert named == [
        ("HEARTBEAT", "g", None, None),
        ("METADATA", None, "orders", 2),
        ("DESCRIBE_GROUPS", "first", None, None),
        ("METADATA", None, None, None),
    ]


async def test_a_topic_that_is_named_by_its_id_has_its_name(lines: Any) -> None:
    broker = await begun()
    topic_id = broker.broker.images.current.topics["orders"].id
    slow_down(broker, ApiKey.PRODUCE, 2)
    data = [{"topic_id": topic_id, "partition_data": [{"index": 0, "records": batch([b"x"])}]}]
    await broker.ask(ApiKey.PRODUCE, 13, acks=1, timeout=5000, topic_data=data, transactional_id=None)
    assert [one["topic"] for one in lines()] == ["orders"]


async def test_the_time_before_a_connections_turn_counts(lines: Any) -> None:
    broker = await begun()
    await asyncio.sleep(10)
    broker.connection.waiting_since = asyncio.get_running_loop().time() - 3
    await broker.ask(ApiKey.METADATA, 9, topics=None)
    slow_down(broker, ApiKey.DESCRIBE_GROUPS, 2)
    await broker.ask(ApiKey.DESCRIBE_GROUPS, 5, groups=["g"])
    broker.connection.waiting_since = 0.0
    assert [(one["queued_ms"], one["handling_ms"]) for one in lines()] == [(3000, 0), (3000, 2000)]


async def test_a_large_request_and_one_that_fails_have_a_line(lines: Any) -> None:
    broker = await begun()
    slow_down(broker, ApiKey.DESCRIBE_GROUPS, 2)
    await broker.ask(ApiKey.DESCRIBE_GROUPS, 5, groups=["g" * 3000])

    def fail(request: Any, context: Any) -> Any:
        async def work() -> Any:
            await asyncio.sleep(2)
            raise ValueError

        return Pending(work())

    broker.dispatcher._handles[ApiKey.METADATA] = fail
    await broker.ask(ApiKey.METADATA, 9, topics=[{"name": "orders"}])
    assert [one["api"] for one in lines()] == ["DESCRIBE_GROUPS", "METADATA"]


async def test_lines_are_bounded_and_the_rest_is_counted(lines: Any) -> None:
    broker = await begun()
    slow_down(broker, ApiKey.METADATA, 2)
    count = SLOW_REQUEST_LINES_PER_MINUTE_MAX + 5
    await asyncio.gather(*(broker.ask(ApiKey.METADATA, 9, topics=None) for _ in range(count)))
    assert len(lines()) == SLOW_REQUEST_LINES_PER_MINUTE_MAX
    assert slow_count(broker, "METADATA") == count
    assert scrape(broker)["odradek_slow_requests_not_logged_total", ()] == 5
    await asyncio.sleep(3)
    await broker.ask(ApiKey.METADATA, 9, topics=None)
    assert len(lines()) == SLOW_REQUEST_LINES_PER_MINUTE_MAX + 1


async def test_the_setting_changes_while_the_broker_runs(lines: Any) -> None:
    broker = await begun({})
    slow_down(broker, ApiKey.METADATA, 5)
    await broker.ask(ApiKey.METADATA, 9, topics=None)
    assert lines() == []

    async def allow(milliseconds: str) -> None:
        configs = [{"name": "slow.request.log.ms", "config_operation": 0, "value": milliseconds}]
        resources = [{"resource_type": 4, "resource_name": "", "configs": configs}]
        answer = await broker.ask(
            ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=resources, validate_only=False
        )
        assert answer.responses[0].error_code == 0, answer

    await allow("4000")
    await broker.ask(ApiKey.METADATA, 9, topics=None)
    assert len(lines()) == 1
    await allow("-1")
    await broker.ask(ApiKey.METADATA, 9, topics=None)
    assert len(lines()) == 1


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_line_is_bounded_whatever_clients_choose(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_requests, "monotonic", lambda: 0.0)
    log = Log(form)
    monkeypatch.setattr(slow_requests, "logger", log.logger)
    slow = slow_requests.SlowRequests(RequestCounters())
    for text in ("x" * 30_000, '"' * 30_000, "\n\x00" * 15_000, "\u2028\U0001f600" * 9_000, "a b=c", ""):
        connection = Connection(id=1, listener_name="PLAINTEXT", peer=("10.0.0.1", 9))
        connection.client_id = text
        connection.principal = f"User:{text}"
        slow.note_send(connection, b"\x00\x03\x00\x09\x00\x00\x00\x07", 12.3456)
    written = log.lines()
    assert len(written) == 6
    assert all(len(line) <= 2048 for line in written)
    if form == "json":
        found = json.loads(written[4])
        assert found["message"] == "slow request: METADATA took 12346 ms"
        assert (found["api"], found["version"], found["correlation_id"]) == ("METADATA", 9, 7)
        assert (found["client_id"], found["sending_ms"], found["peer"]) == ("a b=c", 12346, "10.0.0.1:9")
    else:
        assert (
            b'took 12346 ms api=METADATA version=9 correlation_id=7 client_id="a b=c" principal="User:a'
            in written[4]
        )
