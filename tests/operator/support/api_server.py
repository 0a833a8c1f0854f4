"""An API server over HTTP with its objects in memory: enough of it for kopf's watches and for our gateway.

It answers discovery, lists in pages, watches, and the writes that `Objects` knows. `refusals` makes it answer an error
instead. `silent` lets watches hang, as a dead server does.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from aiohttp import web

from odradek_operator.gateways.kubernetes import APIS, Api, Json, KubernetesError
from tests.operator.support.objects import Change, Objects

_EXTRA = (
    Api("v1", "namespaces", "Namespace", namespaced=False),
    Api("apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False),
)


class ApiServer:
    """Serves on a free port of 127.0.0.1. `requests` are method and path, in order."""

    def __init__(self, objects: Objects | None = None, *, page_size: int = 500) -> None:
        self.objects = objects or Objects()
        self.requests: list[tuple[str, str]] = []
        self.refusals: dict[tuple[str, str], int] = {}
        self.silent = False
        self.token: str | None = None
        """The bearer token without which it answers 401; None takes anybody."""
        self.watched: set[str] = set()
        """Plurals of the kinds of which a watch has begun."""
        self._page_size = page_size
        self._apis = {(api.group_version, api.plural): api for api in (*APIS.values(), *_EXTRA)}
        self._runner: web.AppRunner | None = None
        self._ending = asyncio.Event()
        self.url = ""

    async def __aenter__(self) -> ApiServer:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ending.set()
        assert self._runner is not None
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.path))
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if self.token is not None and (scheme.lower(), token) != ("bearer", self.token):
            body = {"kind": "Status", "message": "Unauthorized", "reason": "Unauthorized", "code": 401}
            return web.json_response(body, status=401)
        status = self.refusals.get((request.method, request.path))
        if status is not None:
            return web.json_response(
                {"kind": "Status", "message": "refused by the test", "code": status}, status=status
            )
        parts = [part for part in request.path.split("/") if part]
        known = self._discovery(parts)
        if known is not None:
            return web.json_response(known)
        group_version = "v1" if parts[0] == "api" else "/".join(parts[1:3])
        rest = parts[2:] if parts[0] == "api" else parts[3:]
        namespace: str | None = None
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        api = self._apis.get((group_version, rest[0]))
        if api is None:
            return web.json_response({"kind": "Status", "message": "no such kind", "code": 404}, status=404)
        name = rest[1] if len(rest) > 1 else ""
        try:
            if request.method == "GET" and not name:
                if request.query.get("watch") == "true":
                    return await self._watch(request, api, namespace)
                return web.json_response(self._list(request, api, namespace))
            return web.json_response(await self._one(request, api, namespace, name, rest[2:]))
        except KubernetesError as refusal:
            body = {"kind": "Status", "message": str(refusal), "code": refusal.status}
            return web.json_response(body, status=refusal.status)

    def _discovery(self, parts: list[str]) -> Json | None:
        groups: dict[str, list[Api]] = defaultdict(list)
        for api in self._apis.values():
            groups[api.group_version].append(api)
        if parts == ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"]}
        if parts == ["apis"]:
            named = [group.split("/") for group in groups if "/" in group]
            return {
                "kind": "APIGroupList",
                "groups": [
                    {
                        "name": group,
                        "versions": [{"groupVersion": f"{group}/{version}", "version": version}],
                        "preferredVersion": {"groupVersion": f"{group}/{version}", "version": version},
                    }
                    for group, version in named
                ],
            }
        group_version = "/".join(parts[1:])
        if (parts[0] == "api" and len(parts) == 2) or (parts[0] == "apis" and group_version in groups):
            found = groups["v1" if parts[0] == "api" else group_version]
            verbs = ["get", "list", "watch", "create", "patch", "update", "delete"]
            resources = [
                {
                    "name": api.plural,
                    "kind": api.kind,
                    "singularName": api.kind.lower(),
                    "namespaced": api.namespaced,
                    "verbs": verbs,
                }
                for api in found
            ]
            return {"kind": "APIResourceList", "groupVersion": group_version, "resources": resources}
        return None

    def _list(self, request: web.Request, api: Api, namespace: str | None) -> Json:
        labels = _labels(request)
        found = self.objects.list(api, namespace, labels)
        start = int(request.query.get("continue") or 0)
        end = start + min(self._page_size, int(request.query.get("limit") or self._page_size))
        meta = {"resourceVersion": str(self.objects.version)}
        if end < len(found):
            meta["continue"] = str(end)
        for body in found:
            body.pop("kind")
            body.pop("apiVersion")
        return {
            "kind": f"{api.kind}List",
            "apiVersion": api.group_version,
            "metadata": meta,
            "items": found[start:end],
        }

    async def _watch(self, request: web.Request, api: Api, namespace: str | None) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        changes: asyncio.Queue[Change] = asyncio.Queue()
        labels = _labels(request)
        since = int(request.query.get("resourceVersion") or 0)
        for change in self.objects.changes:
            if int(change.body["metadata"]["resourceVersion"]) > since:
                changes.put_nowait(change)
        end: Callable[[], None] = self.objects.watch(changes.put_nowait)
        self.watched.add(api.plural)
        try:
            ending = asyncio.ensure_future(self._end_of(request))
            while not ending.done():
                coming = asyncio.ensure_future(changes.get())
                await asyncio.wait({coming, ending}, return_when=asyncio.FIRST_COMPLETED)
                if not coming.done():
                    coming.cancel()
                    break
                change = coming.result()
                about = change.body["metadata"]
                within = namespace is None or about.get("namespace") == namespace
                within = within and labels.items() <= (about.get("labels") or {}).items()
                if change.body["kind"] != api.kind or not within or self.silent:
                    continue
                try:
                    await answer.write(
                        json.dumps({"type": change.type, "object": change.body}).encode() + b"\n"
                    )
                except ConnectionResetError:  # the client has closed the watch
                    break
            ending.cancel()
        finally:
            end()
        return answer

    async def _end_of(self, watch: web.Request) -> None:
        seconds = watch.query.get("timeoutSeconds")
        with suppress(TimeoutError):
            async with asyncio.timeout(float(seconds) if seconds else None):
                await self._ending.wait()

    async def _one(
        self, request: web.Request, api: Api, namespace: str | None, name: str, subresource: list[str]
    ) -> Json:
        sent: Any = json.loads(await request.text() or "null")
        manager = request.query.get("fieldManager", "unknown")
        content_type = request.content_type
        match request.method:
            case "GET":
                found = self.objects.get(api, namespace, name)
                if found is None:
                    raise KubernetesError(f"{name} not found", status=404)
                return found
            case "POST":
                return self.objects.create(sent)
            case "PUT":
                return self.objects.replace(sent)
            case "DELETE":
                options = sent or {}
                uid = options.get("preconditions", {}).get("uid")
                orphan = options.get("propagationPolicy") == "Orphan"
                self.objects.delete(api, namespace, name, uid=uid, orphan=orphan)
                return {"kind": "Status", "status": "Success"}
            case "PATCH" if content_type == "application/apply-patch+yaml":
                return self.objects.apply(sent, manager=manager, force=request.query.get("force") == "true")
            case "PATCH" if content_type == "application/json-patch+json":
                assert subresource == ["status"], "only the status is patched so"
                return self.objects.set_status(api, namespace, name, sent[1]["value"], uid=sent[0]["value"])
            case "PATCH":
                return self.objects.merge(api, namespace, name, sent)
        raise KubernetesError(f"{request.method} is not served", status=405)


def _labels(request: web.Request) -> dict[str, str]:
    """The labels of a selector; only `key=value` is known."""
    pairs = request.query.get("labelSelector", "").split(",")
    return dict(pair.split("=") for pair in pairs if "=" in pair)
