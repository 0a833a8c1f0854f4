"""What workers report: their pages over HTTP, in the form that they have and in forms that are none."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web

from odradek_operator.gateways.mirrors import HttpMirrorWorkers, WorkerPage, parse_page

PAGE: dict[str, Any] = {
    "name": "shop.copy",
    "target": "main",
    "worker": "copy-mirror-1",
    "flows": [
        {
            "flow": "shop->main",
            "source": "shop",
            "state": "waiting",
            "partitions": [
                {"topic": "orders", "partition": 0, "lag": 12, "lag_seconds": 0.25, "stopped": None},
                {
                    "topic": "orders",
                    "partition": 1,
                    "lag": None,
                    "lag_seconds": None,
                    "stopped": {"at_ms": 1, "kind": "Truncated", "text": "it is gone"},
                },
            ],
            "last_error": {"at_ms": 1, "kind": "ConnectionFailed", "text": "shop does not answer"},
        }
    ],
}


async def asked(text: str, status: int = 200) -> list[WorkerPage | None]:
    """What the operator learns of a worker that answers so."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=text, status=status)

    application = web.Application()
    application.router.add_get("/mirror", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    workers = HttpMirrorWorkers()
    try:
        return list(await workers.fetch_pages(["127.0.0.1"], runner.addresses[0][1]))
    finally:
        await workers.close()
        await runner.cleanup()


def test_a_page_is_read() -> None:
    (page,) = asyncio.run(asked(json.dumps(PAGE)))
    assert page is not None
    (flow,) = page.flows
    assert (flow.source, flow.state, flow.error) == ("shop", "waiting", "shop does not answer")
    assert flow.is_failing
    assert [(one.topic, one.lag, one.lag_seconds, one.error) for one in flow.partitions] == [
        ("orders", 12, 0.25, None),
        ("orders", None, None, "it is gone"),
    ]


@pytest.mark.parametrize(("text", "status"), [("{}", 200), ("no JSON", 200), ("[]", 200), ("gone", 500)])
def test_what_is_no_page_is_no_answer(text: str, status: int) -> None:
    assert asyncio.run(asked(text, status=status)) == [None]


def test_a_worker_that_is_away_is_no_answer() -> None:
    async def story() -> list[WorkerPage | None]:
        workers = HttpMirrorWorkers()
        try:
            return list(await workers.fetch_pages(["127.0.0.1"], 1))
        finally:
            await workers.close()

    assert asyncio.run(story()) == [None]


def test_what_a_newer_worker_adds_is_no_error() -> None:
    odd = {"flows": [{"source": "a", "new": 1, "partitions": [{"topic": "t", "lag": -1, "more": []}, 7]}, 3]}
    (flow,) = parse_page(odd).flows
    assert [(one.topic, one.lag) for one in flow.partitions] == [("t", 0)]
