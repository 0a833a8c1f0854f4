"""The gateway over HTTP: what it asks for, how it reads answers, and what errors become."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from odradek_operator.gateways.api_server import ApiServerGateway
from odradek_operator.gateways.kubernetes import (
    CLUSTERS,
    CONFIG_MAPS,
    EVENTS,
    TOPICS,
    Conflict,
    EventType,
    Forbidden,
    Json,
    KubernetesError,
    NotFound,
    Refused,
)
from tests.operator.support.api_server import ApiServer
from tests.operator.support.gateway import gateway_to
from tests.operator.support.world import manifest
from tests.support.stories import in_real_time, told_by


def topic(name: str, **spec: object) -> Json:
    return manifest(TOPICS, name, {"cluster": "events", **spec})


def with_server(
    use: Callable[[ApiServer, ApiServerGateway], Awaitable[None]], *, page_size: int = 500
) -> None:
    async def scenario() -> None:
        async with ApiServer(page_size=page_size) as server, gateway_to(server.url, token="x") as kubernetes:
            await use(server, kubernetes)

    asyncio.run(scenario())


@told_by(with_server, gives=2)
async def test_what_is_made_can_be_read_changed_and_deleted(
    _: ApiServer, kubernetes: ApiServerGateway
) -> None:
    assert await kubernetes.get(TOPICS, "default", "a") is None
    made = await kubernetes.create(topic("a", partitions=3))
    with pytest.raises(Conflict):
        await kubernetes.create(topic("a"))
    stated = await kubernetes.set_status(TOPICS, made, {"x": 1})
    assert stated["status"] == {"x": 1} and stated["spec"]["partitions"] == 3
    with pytest.raises(Conflict):
        await kubernetes.set_finalizers(TOPICS, made, ["odradek.io/cleanup"])
    held = await kubernetes.set_finalizers(TOPICS, stated, ["odradek.io/cleanup"])
    assert await kubernetes.delete(TOPICS, "default", "a", uid="another") is False
    assert await kubernetes.delete(TOPICS, "default", "a") is True
    found = await kubernetes.get(TOPICS, "default", "a")
    assert found is not None and "deletionTimestamp" in found["metadata"]
    held = found
    await kubernetes.set_finalizers(TOPICS, held, [])
    assert await kubernetes.get(TOPICS, "default", "a") is None
    assert await kubernetes.delete(TOPICS, "default", "a") is False


@told_by(with_server, page_size=2, gives=2)
async def test_lists_are_read_page_by_page_and_say_what_they_hold(
    server: ApiServer, kubernetes: ApiServerGateway
) -> None:
    for number in range(7):
        await kubernetes.create(topic(f"t{number}"))
    found = await kubernetes.list(TOPICS, None)
    assert [body["metadata"]["name"] for body in found] == [f"t{number}" for number in range(7)]
    assert {body["kind"] for body in found} == {"Topic"}
    assert sum(path.endswith("/topics") for method, path in server.requests if method == "GET") == 4
    assert await kubernetes.list(TOPICS, "elsewhere") == []
    assert await kubernetes.list(TOPICS, None, labels={"a": "b"}) == []


@told_by(with_server, gives=2)
async def test_what_is_no_longer_applied_goes(_: ApiServer, kubernetes: ApiServerGateway) -> None:
    bare = manifest(CONFIG_MAPS, "c")
    await kubernetes.apply({**bare, "data": {"a": "1", "b": "2"}})
    again = await kubernetes.apply({**bare, "data": {"b": "3"}})
    assert again["data"] == {"b": "3"}
    same = await kubernetes.apply({**bare, "data": {"b": "3"}})
    assert same["metadata"]["resourceVersion"] == again["metadata"]["resourceVersion"]
    assert await kubernetes.get(CONFIG_MAPS, "default", "c") == same


@pytest.mark.parametrize(
    ("status", "error"),
    [(403, Forbidden), (404, NotFound), (409, Conflict), (422, Refused), (500, KubernetesError)],
)
@told_by(with_server, gives=2)
async def test_errors_say_what_was_asked_and_what_was_answered(
    server: ApiServer, kubernetes: ApiServerGateway, status: int, error: type[KubernetesError]
) -> None:
    path = CLUSTERS.path("default")
    server.refusals["POST", path] = status
    with pytest.raises(error, match=f"POST {path}.*refused by the test") as caught:
        await kubernetes.create(topic("x") | {"kind": "Cluster"})
    assert type(caught.value) is error and caught.value.status == status


@in_real_time
async def test_a_server_that_is_not_there_is_an_error_of_its_own() -> None:
    async with gateway_to("http://127.0.0.1:1") as kubernetes:
        with pytest.raises(KubernetesError, match="cannot be reached") as caught:
            await kubernetes.get(TOPICS, "default", "a")
        assert caught.value.status == 0


@in_real_time
async def test_a_request_after_the_end_opens_no_connection() -> None:
    async with ApiServer(page_size=500) as server:
        kubernetes = gateway_to(server.url)
        async with kubernetes:
            pass
        with pytest.raises(KubernetesError, match="closed"):
            await kubernetes.list(TOPICS, "default")
        assert not server.requests


@told_by(with_server, gives=2)
async def test_the_same_news_again_is_counted(server: ApiServer, kubernetes: ApiServerGateway) -> None:
    body = await kubernetes.create(topic("a"))
    for _ in range(3):
        await kubernetes.record_event(body, EventType.WARNING, "Slow", "it is slow")
    await kubernetes.record_event(body, EventType.WARNING, "Slow", "it is slower")
    events = await kubernetes.list(EVENTS, "default")
    assert sorted((event["message"], event["count"]) for event in events) == [
        ("it is slow", 3),
        ("it is slower", 1),
    ]
    assert events[0]["involvedObject"]["uid"] == body["metadata"]["uid"]
    assert any("POST" in one.labels and "201" not in one.labels for one in kubernetes.samples())
    # An event that cannot be written is no reason to stop.
    server.refusals["POST", EVENTS.path("default")] = 403
    await kubernetes.record_event(body, EventType.NORMAL, "Other", "news")
