"""Answers of the console: documents as JSON, errors in words, streams of events, and its own files."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Final

from aiohttp import web

from odradek.client.errors import ClientClosed, ClientTimeout, ConnectionFailed, NoSuchBroker
from odradek.console.clusters import NoSuchClusterError
from odradek.console.logins import ClusterAwayError
from odradek.console.reading import Document, Event, TooManyViewersError
from odradek.foundation.errors import (
    BrokerNotAvailable,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    LeaderNotAvailable,
    MissingByName,
    NotController,
    OdradekError,
    RequestError,
    RequestTimedOut,
)
from odradek.foundation.security_errors import (
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    TopicAuthorizationFailed,
)

logger = logging.getLogger(__name__)

# The first kind that fits an error gives the status of its answer.
_STATUSES: Final[tuple[tuple[type[Exception] | tuple[type[Exception], ...], int], ...]] = (
    (TooManyViewersError, 429),
    ((ClusterAuthorizationFailed, GroupAuthorizationFailed, TopicAuthorizationFailed), 403),
    ((MissingByName, NoSuchBroker, NoSuchClusterError), 404),
    ((ClusterAwayError, ConnectionFailed, ClientTimeout, ClientClosed, RequestTimedOut, OSError), 503),
    (
        (
            BrokerNotAvailable,
            CoordinatorLoadInProgress,
            CoordinatorNotAvailable,
            LeaderNotAvailable,
            NotController,
        ),
        503,
    ),
    (RequestError, 400),
    (OdradekError, 502),
)
_TYPES: Final = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_FOLDER: Final = Path(__file__).parents[1] / "assets"


def answer(document: Document, *, status: int = 200) -> web.Response:
    """A document. No cache keeps it: it is as old as it says."""
    text = json.dumps(document, separators=(",", ":"))
    return web.Response(
        text=text, status=status, content_type="application/json", headers={"Cache-Control": "no-store"}
    )


def refuse(status: int, words: str) -> web.Response:
    """An error in words."""
    return answer({"error": words}, status=status)


def answer_failure(failure: Exception) -> web.Response:
    """The answer to a request that failed, by the kind of its error."""
    for kind, status in _STATUSES:
        if isinstance(failure, kind):
            return refuse(status, str(failure) or type(failure).__name__)
    logger.error("a request failed", exc_info=failure)
    return refuse(500, f"{type(failure).__name__}: {failure}")


async def send_events(request: web.Request, events: AsyncGenerator[Event, None]) -> web.StreamResponse:
    """Send events as they come (text/event-stream), until the last one or until the page closes. An error before the
    first one is raised, a later one is the event `failed`. A slow page makes the reading wait.
    """
    async with aclosing(events):
        first = await anext(events)
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        )
        await response.prepare(request)
        try:
            await _send(response, first)
            async for event in events:
                await _send(response, event)
        except ConnectionError:
            return response
        except (OdradekError, TimeoutError) as failure:
            await _send(response, ("failed", {"error": str(failure)}))
        await response.write_eof()
        return response


async def _send(response: web.StreamResponse, event: Event) -> None:
    name, document = event
    text = json.dumps(document, separators=(",", ":"))
    await response.write(f"event: {name}\ndata: {text}\n\n".encode())


class Assets:
    """The console's own files, read once at the start. No name of a request becomes a path."""

    def __init__(self, folder: Path = _FOLDER) -> None:
        self._files = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in _TYPES}
        self._tags = {name: hashlib.sha256(data).hexdigest()[:16] for name, data in self._files.items()}

    async def first_page(self, request: web.Request) -> web.Response:
        """The page that all others are shown in."""
        return self._answer("index.html", request)

    async def asset(self, request: web.Request) -> web.Response:
        """A script, style or picture."""
        return self._answer(request.match_info["name"], request)

    def _answer(self, name: str, request: web.Request) -> web.Response:
        data = self._files.get(name)
        if data is None:
            return refuse(404, "there is no such file")
        # After an upgrade of the console a browser has the new files at once.
        headers = {"Cache-Control": "no-cache", "ETag": f'"{self._tags[name]}"'}
        if request.headers.get("If-None-Match") == headers["ETag"]:
            return web.Response(status=304, headers=headers)
        kind = _TYPES[Path(name).suffix]
        return web.Response(body=data, content_type=kind, charset="utf-8", headers=headers)
