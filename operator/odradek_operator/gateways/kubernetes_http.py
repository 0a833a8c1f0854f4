"""Kubernetes' API over HTTP, with aiohttp, which kopf brings anyway.

Why not the `kubernetes` package: it waits inside its calls, so each would need a thread, and it is half of such an
operator's memory. What is spoken here is a dozen paths and four kinds of patch. Requests under way are bounded, and
each has an end.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Self

import aiohttp

from odradek.foundation.metrics import Sample
from odradek_operator.foundation.metrics import API_REQUESTS
from odradek_operator.gateways.kubernetes import (
    EVENTS,
    FIELD_MANAGER,
    Api,
    Conflict,
    EventType,
    Forbidden,
    Json,
    KubernetesError,
    NotFound,
    Refused,
    api_of,
    metadata,
)

logger = logging.getLogger(__name__)

REQUESTS_UNDER_WAY_MAX: Final = 32
REQUEST_SECONDS_MAX: Final = 30.0
PAGE_SIZE: Final = 500
WATCH_SECONDS_MAX: Final = 300
# The API server sends a bookmark about once a minute.
WATCH_SILENT_SECONDS_MAX: Final = 90.0
# An object has 1.5 MB at most in etcd.
_WATCH_LINE_BYTES_MAX: Final = 2 * 2**20
_APPLY: Final = "application/apply-patch+yaml"
_JSON_PATCH: Final = "application/json-patch+json"
_MERGE_PATCH: Final = "application/merge-patch+json"
_EVENT_MESSAGE_LENGTH_MAX: Final = 1000
_ERRORS: Final[Mapping[int, type[KubernetesError]]] = {
    403: Forbidden, 404: NotFound, 409: Conflict, 410: Conflict, 400: Refused, 422: Refused,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Access:
    """How the API server is reached. `headers` is asked for each request, as a token is replaced from time to time."""

    server: str
    tls: ssl.SSLContext | None
    headers: Callable[[], Mapping[str, str]]


class KubernetesHttp:
    """The gateway to a real API server. Use it as a context manager, or close it."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._session: aiohttp.ClientSession | None = None
        self._watching: aiohttp.ClientSession | None = None
        self._places = asyncio.Semaphore(REQUESTS_UNDER_WAY_MAX)
        self._answers: Counter[tuple[str, int]] = Counter()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        for session in (self._session, self._watching):
            if session is not None:
                await session.close()

    def samples(self) -> Iterator[Sample]:
        """How many requests there were, by method and status."""
        for (method, status), count in sorted(self._answers.items()):
            yield API_REQUESTS.sample(count, method, status)

    async def get(self, api: Api, namespace: str | None, name: str) -> Json | None:
        try:
            return await self._call("GET", api.path(namespace, name))
        except NotFound:
            return None

    async def list(
        self,
        api: Api,
        namespace: str | None,
        *,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> Sequence[Json]:
        query = {"limit": str(PAGE_SIZE)}
        for selector, wanted in (("labelSelector", labels), ("fieldSelector", fields)):
            if wanted:
                query[selector] = ",".join(f"{key}={value}" for key, value in wanted.items())
        found: list[Json] = []
        while True:
            page = await self._call("GET", api.path(namespace), query=query)
            # Items of a list do not say what they are.
            found.extend({"apiVersion": api.group_version, "kind": api.kind} | item for item in page["items"])
            following = page.get("metadata", {}).get("continue")
            if not following:
                return found
            query["continue"] = following

    async def watch(
        self, api: Api, namespace: str | None, *, labels: Mapping[str, str]
    ) -> AsyncIterator[Json]:
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS_MAX),
            "labelSelector": ",".join(f"{key}={value}" for key, value in labels.items()),
        }
        if self._watching is None:
            # Apart from requests, of which so many are bounded: a watch holds its connection.
            connector = aiohttp.TCPConnector(ssl=self._access.tls or True, limit=0)
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=WATCH_SILENT_SECONDS_MAX)
            self._watching = aiohttp.ClientSession(
                connector=connector, timeout=timeout, read_bufsize=_WATCH_LINE_BYTES_MAX
            )
        path = api.path(namespace)
        headers = {"Accept": "application/json", **self._access.headers()}
        try:
            async with self._watching.get(
                self._access.server + path, params=query, headers=headers
            ) as answer:
                self._answers["GET", answer.status] += 1
                if answer.status >= 400:
                    raise _refusal("WATCH", path, answer.status, await answer.read())
                async for line in answer.content:
                    change = _parsed(line)
                    body = change.get("object") or {}
                    if change.get("type") == "ERROR":
                        raise _refusal("WATCH", path, int(body.get("code") or 500), line)
                    if change.get("type") != "BOOKMARK":
                        yield body
        except TimeoutError:
            # Nothing happened, or the connection is dead: the next watch begins with what is there.
            return
        except (aiohttp.ClientError, OSError, ValueError) as failure:
            reason = str(failure) or type(failure).__name__
            raise KubernetesError(f"WATCH {path}: the watch broke off: {reason}") from failure

    async def create(self, manifest: Json) -> Json:
        path = api_of(manifest).path(metadata(manifest).get("namespace"))
        return await self._call("POST", path, body=manifest, query={"fieldManager": FIELD_MANAGER})

    async def apply(self, manifest: Json, *, force: bool = True) -> Json:
        path = api_of(manifest).path(metadata(manifest).get("namespace"), metadata(manifest)["name"])
        query = {"fieldManager": FIELD_MANAGER, "force": "true" if force else "false"}
        return await self._call("PATCH", path, body=manifest, query=query, content_type=_APPLY)

    async def replace(self, manifest: Json) -> Json:
        path = api_of(manifest).path(metadata(manifest).get("namespace"), metadata(manifest)["name"])
        return await self._call("PUT", path, body=manifest, query={"fieldManager": FIELD_MANAGER})

    async def set_status(self, api: Api, body: Json, status: Json) -> Json:
        path = api.path(metadata(body).get("namespace"), metadata(body)["name"], "status")
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": metadata(body)["uid"]},
            {"op": "add", "path": "/status", "value": status},
        ]
        return await self._call("PATCH", path, body=patch, content_type=_JSON_PATCH)

    async def set_finalizers(self, api: Api, body: Json, finalizers: Sequence[str]) -> Json:
        path = api.path(metadata(body).get("namespace"), metadata(body)["name"])
        patch = {
            "metadata": {
                "resourceVersion": metadata(body)["resourceVersion"],
                "uid": metadata(body)["uid"],
                "finalizers": [*finalizers],
            }
        }
        return await self._call("PATCH", path, body=patch, content_type=_MERGE_PATCH)

    async def set_annotations(
        self, api: Api, namespace: str | None, name: str, annotations: Mapping[str, str | None]
    ) -> Json:
        patch = {"metadata": {"annotations": dict(annotations)}}
        return await self._call("PATCH", api.path(namespace, name), body=patch, content_type=_MERGE_PATCH)

    async def set_labels(
        self, api: Api, namespace: str | None, name: str, labels: Mapping[str, str | None]
    ) -> Json:
        patch = {"metadata": {"labels": dict(labels)}}
        return await self._call("PATCH", api.path(namespace, name), body=patch, content_type=_MERGE_PATCH)

    async def delete(
        self,
        api: Api,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        orphan: bool = False,
        force: bool = False,
    ) -> bool:
        options: Json = {"propagationPolicy": "Orphan" if orphan else "Background"}
        if force:
            options["gracePeriodSeconds"] = 0
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        try:
            await self._call("DELETE", api.path(namespace, name), body=options)
        except (NotFound, Conflict):
            return False
        return True

    async def tell(self, about: Json, type: EventType, reason: str, message: str) -> None:
        try:
            await self._tell(about, type, reason, message[:_EVENT_MESSAGE_LENGTH_MAX])
        except KubernetesError as failure:
            # An event is a courtesy: what it tells of is in the status too.
            logger.warning("the event %s on %s was not written: %s", reason, metadata(about)["name"], failure)

    async def _tell(self, about: Json, type: EventType, reason: str, message: str) -> None:
        namespace = metadata(about).get("namespace") or "default"
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        told = "\n".join([metadata(about).get("uid", ""), type, reason, message])
        # The same news has the same name, so that it is found again, and counted instead of repeated.
        name = f"{metadata(about)['name'][:200]}.{hashlib.sha256(told.encode()).hexdigest()[:16]}"
        known = await self.get(EVENTS, namespace, name)
        if known is not None:
            patch = {"count": int(known.get("count") or 1) + 1, "lastTimestamp": now}
            path = EVENTS.path(namespace, name)
            await self._call("PATCH", path, body=patch, content_type=_MERGE_PATCH)
            return
        await self.create(
            event_manifest(about, type, reason, message, name=name, namespace=namespace, now=now)
        )

    async def _call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Json:
        headers = {"Accept": "application/json", "Content-Type": content_type, **self._access.headers()}
        data = None if body is None else json.dumps(body, separators=(",", ":"))
        async with self._places:
            try:
                async with self._opened().request(
                    method, self._access.server + path, data=data, params=query, headers=headers
                ) as answer:
                    content = await answer.read()
                    status = answer.status
            except (aiohttp.ClientError, OSError) as failure:
                self._answers[method, 0] += 1
                reason = str(failure) or type(failure).__name__
                raise KubernetesError(
                    f"{method} {path}: the API server cannot be reached: {reason}"
                ) from failure
        self._answers[method, status] += 1
        parsed = _parsed(content)
        if status >= 400:
            raise _refusal(method, path, status, content)
        return parsed

    def _opened(self) -> aiohttp.ClientSession:
        # Made when first used: a session belongs to the loop it is made on.
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=self._access.tls or True, limit=REQUESTS_UNDER_WAY_MAX)
            timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS_MAX)
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout)
        return self._session


def event_manifest(
    about: Json, type: EventType, reason: str, message: str, *, name: str, namespace: str, now: str
) -> Json:
    """An event as it is created."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {
            "apiVersion": about["apiVersion"],
            "kind": about["kind"],
            "name": metadata(about)["name"],
            "namespace": metadata(about).get("namespace", ""),
            "uid": metadata(about).get("uid", ""),
        },
        "type": str(type),
        "reason": reason,
        "message": message,
        "source": {"component": FIELD_MANAGER},
        "reportingComponent": FIELD_MANAGER,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


def _refusal(method: str, path: str, status: int, content: bytes) -> KubernetesError:
    message = _parsed(content).get("message") or content[:500].decode(errors="replace")
    return _ERRORS.get(status, KubernetesError)(f"{method} {path}: {status}: {message}", status=status)


def _parsed(content: bytes) -> Json:
    try:
        parsed = json.loads(content) if content else {}
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
