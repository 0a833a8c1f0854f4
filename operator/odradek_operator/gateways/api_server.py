"""The gateway to Kubernetes' API server, over the `kubernetes` package's dynamic client.

The package makes requests: it knows names of parameters, content types of patches, TLS and proxies. Paths and objects
stay plain, so that neither its discovery nor its generated models are loaded (docs/design/0006). Requests under way are
bounded, and each has an end. A request that is refused because credentials ended is sent again, once, with new ones.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Self

import aiohttp
from kubernetes.aio.client import ApiClient, ApiException, Configuration
from kubernetes.aio.dynamic import DynamicClient

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
    NoAccess,
    NotFound,
    Refused,
    api_of,
    metadata,
)

logger = logging.getLogger(__name__)

Configure = Callable[[], Awaitable[Configuration]]
"""Reads how the API server is reached and the operator's credentials. Raises NoAccess."""

REQUESTS_UNDER_WAY_MAX: Final = 32
REQUEST_SECONDS_MAX: Final = 30.0
# A client whose credentials were replaced is closed at the next renewal: its requests have ended by then.
RENEWAL_SECONDS_MIN: Final = REQUEST_SECONDS_MAX
PAGE_SIZE: Final = 500
_REQUEST_TIMEOUT: Final = aiohttp.ClientTimeout(total=REQUEST_SECONDS_MAX)
_APPLY: Final = "application/apply-patch+yaml"
_JSON_PATCH: Final = "application/json-patch+json"
_MERGE_PATCH: Final = "application/merge-patch+json"
_ONLY_METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_EVENT_MESSAGE_LENGTH_MAX: Final = 1000
_UNAUTHORIZED: Final = 401
_ERRORS: Final[Mapping[int, type[KubernetesError]]] = {
    403: Forbidden, 404: NotFound, 409: Conflict, 410: Conflict, 400: Refused, 422: Refused,
}  # fmt: skip


class ApiServerGateway:
    """The gateway to a real API server. Use it as a context manager, or close it.

    `headers` go with each request. Entering the context reads the configuration, and raises NoAccess.
    """

    def __init__(self, configure: Configure, *, headers: Mapping[str, str] | None = None) -> None:
        self._configure = configure
        self._headers = dict(headers or {})
        self._client: ApiClient | None = None
        self._retired: ApiClient | None = None
        self._is_closed = False
        self._renewed_at = float("-inf")
        self._renewing = asyncio.Lock()
        self._places = asyncio.Semaphore(REQUESTS_UNDER_WAY_MAX)
        self._answers: Counter[tuple[str, int]] = Counter()

    async def __aenter__(self) -> Self:
        await self._open_client()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; requests fail from now on. A request after it would open a connection that stays."""
        self._is_closed = True
        async with self._renewing:
            for client in (self._client, self._retired):
                if client is not None:
                    await client.close()

    def samples(self) -> Iterator[Sample]:
        """The number of requests, by method and status."""
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
        label_selector, field_selector = _selector(labels), _selector(fields)
        found: list[Json] = []
        following: str | None = None
        while True:
            page = await self._call(
                "GET",
                api.path(namespace),
                limit=PAGE_SIZE,
                _continue=following,
                label_selector=label_selector,
                field_selector=field_selector,
            )
            # Items of a list do not say what they are.
            found.extend({"apiVersion": api.group_version, "kind": api.kind} | item for item in page["items"])
            following = page.get("metadata", {}).get("continue") or None
            if following is None:
                return found

    async def create(self, manifest: Json) -> Json:
        path = api_of(manifest).path(metadata(manifest).get("namespace"))
        return await self._call("POST", path, body=manifest, field_manager=FIELD_MANAGER)

    async def apply(self, manifest: Json, *, force: bool = True, dry_run: bool = False) -> Json:
        path = api_of(manifest).path(metadata(manifest).get("namespace"), metadata(manifest)["name"])
        return await self._call(
            "PATCH",
            path,
            body=manifest,
            content_type=_APPLY,
            field_manager=FIELD_MANAGER,
            force_conflicts=force,
            dry_run="All" if dry_run else None,
        )

    async def replace(self, manifest: Json) -> Json:
        path = api_of(manifest).path(metadata(manifest).get("namespace"), metadata(manifest)["name"])
        return await self._call("PUT", path, body=manifest, field_manager=FIELD_MANAGER)

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

    async def merge(
        self, api: Api, namespace: str | None, name: str, patch: Json, *, only_metadata: bool = False
    ) -> Json:
        return await self._call(
            "PATCH",
            api.path(namespace, name),
            body=patch,
            content_type=_MERGE_PATCH,
            field_manager=FIELD_MANAGER,
            headers={"Accept": _ONLY_METADATA} if only_metadata else {},
        )

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

    async def record_event(self, about: Json, type: EventType, reason: str, message: str) -> None:
        try:
            await self._write_event(about, type, reason, message[:_EVENT_MESSAGE_LENGTH_MAX])
        except KubernetesError as failure:
            # An event may be lost: what it reports is in the status too.
            logger.warning("the event %s on %s was not written: %s", reason, metadata(about)["name"], failure)

    async def _write_event(self, about: Json, type: EventType, reason: str, message: str) -> None:
        namespace = metadata(about).get("namespace") or "default"
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        text = "\n".join([metadata(about).get("uid", ""), type, reason, message])
        # The same event has the same name, so that it is found again, and counted instead of repeated.
        name = f"{metadata(about)['name'][:200]}.{hashlib.sha256(text.encode()).hexdigest()[:16]}"
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
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **given: object
    ) -> Json:
        """One request and its answer. `given` are the dynamic client's names for what goes along."""
        async with self._places:
            try:
                async with await self._request(
                    method, path, headers or {}, _request_timeout=_REQUEST_TIMEOUT, **given
                ) as answer:
                    content = await answer.read()
            except ApiException as refused:
                raise _refusal(method, path, refused.status, refused.body) from None
            except (aiohttp.ClientError, OSError) as failure:
                self._answers[method, 0] += 1
                reason = str(failure) or type(failure).__name__
                raise KubernetesError(
                    f"{method} {path}: the API server cannot be reached: {reason}"
                ) from failure
        return _parse_object(content)

    async def _request(
        self, method: str, path: str, headers: Mapping[str, str], **given: object
    ) -> aiohttp.ClientResponse:
        """An answer that is no refusal, unread. Raises ApiException, and what aiohttp raises."""
        client = await self._open_client()
        try:
            return await self._send(client, method, path, headers, **given)
        except ApiException as refused:
            # Nothing was carried out, so that it may be sent again.
            if refused.status != _UNAUTHORIZED or not await self._renew_client(client):
                raise
        return await self._send(await self._open_client(), method, path, headers, **given)

    async def _send(
        self, client: ApiClient, method: str, path: str, headers: Mapping[str, str], **given: object
    ) -> aiohttp.ClientResponse:
        try:
            answer: aiohttp.ClientResponse = await DynamicClient(client).request(
                method, path, serialize=False, header_params={**self._headers, **headers}, **given
            )
        except ApiException as refused:
            self._answers[method, refused.status] += 1
            raise
        self._answers[method, answer.status] += 1
        return answer

    async def _open_client(self) -> ApiClient:
        if self._client is None and not self._is_closed:
            async with self._renewing:
                if self._client is None:
                    self._client = await self._make_client()
        if self._client is None or self._is_closed:
            raise KubernetesError("the connection to the API server is closed: the operator is ending")
        return self._client

    async def _renew_client(self, refused: ApiClient) -> bool:
        """Whether there is a client with other credentials than the one that was refused."""
        async with self._renewing:
            if self._is_closed:
                return False
            if self._client is not refused:
                return True
            now = asyncio.get_running_loop().time()
            if now - self._renewed_at < RENEWAL_SECONDS_MIN:
                return False
            self._renewed_at = now
            try:
                renewed = await self._make_client()
            except NoAccess as failure:
                logger.warning("the credentials for the API server cannot be renewed: %s", failure)
                return False
            former, self._retired, self._client = self._retired, refused, renewed
        if former is not None:
            await former.close()
        return True

    async def _make_client(self) -> ApiClient:
        configuration = await self._configure()
        # Requests are bounded by `_places`.
        configuration.connection_pool_maxsize = 0
        client = ApiClient(configuration)
        client.user_agent = FIELD_MANAGER
        return client


def event_manifest(
    about: Json, type: EventType, reason: str, message: str, *, name: str, namespace: str, now: str
) -> Json:
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


def _selector(wanted: Mapping[str, str] | None) -> str | None:
    return ",".join(f"{key}={value}" for key, value in wanted.items()) if wanted else None


def _refusal(method: str, path: str, status: int, content: bytes | str | None) -> KubernetesError:
    """The API server's Status as an error, with its reason: `AlreadyExists` and `Conflict` are both 409."""
    said = _parse_object(content)
    plain = content.decode(errors="replace") if isinstance(content, bytes) else content or ""
    message = said.get("message") or plain[:500]
    kind = _ERRORS.get(status, KubernetesError)
    return kind(f"{method} {path}: {status}: {message}", status=status, reason=str(said.get("reason") or ""))


def _parse_object(content: bytes | str | None) -> Json:
    try:
        parsed = json.loads(content) if content else {}
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
