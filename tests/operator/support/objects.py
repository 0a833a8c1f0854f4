"""An API server's memory: objects with versions, server-side apply, finalizers, owners, and watches.

It behaves as far as an operator can observe. A write that changes nothing makes no new version. A status is written
apart from a spec. A deleted object waits for its finalizers, and what it alone owns goes with it. It checks no schema:
rules are tried on a real API server.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, cast

from odradek_operator.gateways.kubernetes import Api, Conflict, Json, NotFound, Refused

Address = tuple[str, str, str]
Paths = frozenset[tuple[str, ...]]


Copied = TypeVar("Copied")


def copied(body: Copied) -> Copied:
    """A copy of what JSON has, in a fraction of what `deepcopy` takes: half of all that these tests do."""
    found: Any = body
    if isinstance(body, dict):
        found = {key: copied(value) for key, value in body.items()}
    elif isinstance(body, list):
        found = [copied(value) for value in body]
    return cast(Copied, found)


class Change(NamedTuple):
    """An event of a watch: ADDED, MODIFIED or DELETED, and the object as it is then."""

    type: str
    body: Json


@dataclass
class _Kept:
    body: Json
    applied: dict[str, Paths]


class Objects:
    """All objects. A watcher is called at once with each change."""

    def __init__(self) -> None:
        self._objects: dict[Address, _Kept] = {}
        self._version = 100
        self._uids = 0
        self._watchers: list[Callable[[Change], None]] = []
        self.writes = 0
        self.changes: list[Change] = []
        """Every change there was, for watches that begin in the past."""

    # --- reading --------------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The newest version."""
        return self._version

    def get(self, api: Api, namespace: str | None, name: str) -> Json | None:
        """A copy of the object."""
        kept = self._objects.get((api.kind, namespace or "", name))
        return None if kept is None else copied(kept.body)

    def list(self, api: Api, namespace: str | None, labels: Mapping[str, str] | None = None) -> list[Json]:
        """Copies of the objects in order of name."""
        return [
            copied(kept.body)
            for (kind, within, _), kept in sorted(self._objects.items())
            if kind == api.kind
            and (namespace is None or namespace == within)
            and (labels or {}).items() <= (kept.body["metadata"].get("labels") or {}).items()
        ]

    def watch(self, watcher: Callable[[Change], None]) -> Callable[[], None]:
        """Have every change from now on; the answer ends it."""
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    # --- writing --------------------------------------------------------------------------------------------------

    def create(self, manifest: Json) -> Json:
        address = _address(manifest)
        if address in self._objects:
            raise Conflict(f"{address} already exists", status=409)
        body = copied(manifest)
        self._uids += 1
        meta = body.setdefault("metadata", {})
        meta |= {"uid": f"uid-{self._uids}", "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1}
        body.pop("status", None)
        self._objects[address] = _Kept(body, {})
        self._changed("ADDED", body)
        return copied(body)

    def apply(self, manifest: Json, *, manager: str, force: bool = True) -> Json:
        """Server-side apply. Lists are taken whole."""
        address = _address(manifest)
        uid = manifest["metadata"].get("uid")
        if uid is not None and (
            address not in self._objects or self._objects[address].body["metadata"]["uid"] != uid
        ):
            raise Conflict(f"{address} is another object now", status=409)
        if address not in self._objects:
            bare = {key: manifest[key] for key in ("apiVersion", "kind")}
            bare["metadata"] = {
                key: manifest["metadata"][key] for key in ("name", "namespace") if key in manifest["metadata"]
            }
            after = _merged(bare, {key: value for key, value in manifest.items() if key != "status"})
            created = self.create(after)
            self._objects[address].applied[manager] = _paths(manifest)
            return created
        kept = self._objects[address]
        wanted = _paths(manifest)
        if not force:
            for other, owned in kept.applied.items():
                if other != manager and (clash := owned & wanted):
                    raise Conflict(f"{sorted(clash)[0]} belongs to {other}", status=409)
        after = copied(kept.body)
        for path in kept.applied.get(manager, frozenset()) - wanted:
            if not any(path in owned for other, owned in kept.applied.items() if other != manager):
                _remove(after, path)
        after = _merged(after, {key: value for key, value in manifest.items() if key != "status"})
        kept.applied[manager] = wanted
        return self._put(address, after)

    def replace(self, manifest: Json) -> Json:
        address = _address(manifest)
        self._check(address, manifest)
        kept = self._objects[address].body
        after = copied(manifest)
        if "status" in kept:
            after["status"] = copied(kept["status"])
        return self._put(address, after)

    def set_status(self, api: Api, namespace: str | None, name: str, status: Any, *, uid: str | None) -> Json:
        address = (api.kind, namespace or "", name)
        kept = self._find(address)
        if uid is not None and kept.body["metadata"]["uid"] != uid:
            raise Refused(f"{address} is another object now", status=422)
        after = copied(kept.body)
        after["status"] = copied(status)
        return self._put(address, after)

    def merge(self, api: Api, namespace: str | None, name: str, patch: Json) -> Json:
        """A merge patch; a resourceVersion or uid in it must be the current one."""
        address = (api.kind, namespace or "", name)
        self._check(address, patch)
        patch = copied(patch)
        patch.get("metadata", {}).pop("resourceVersion", None)
        after = _merged(copied(self._find(address).body), patch)
        return self._put(address, after)

    def delete(self, api: Api, namespace: str | None, name: str, *, uid: str | None, orphan: bool) -> None:
        address = (api.kind, namespace or "", name)
        kept = self._find(address)
        if uid is not None and kept.body["metadata"]["uid"] != uid:
            raise Conflict(f"{address} is another object now", status=409)
        if kept.body["metadata"].get("finalizers"):
            if "deletionTimestamp" not in kept.body["metadata"]:
                after = copied(kept.body)
                after["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
                self._put(address, after)
            return
        self._gone(address, orphan=orphan)

    # --- inside ---------------------------------------------------------------------------------------------------

    def _find(self, address: Address) -> _Kept:
        if address not in self._objects:
            raise NotFound(f"{address} is not there", status=404)
        return self._objects[address]

    def _check(self, address: Address, manifest: Json) -> None:
        kept = self._find(address).body["metadata"]
        for field in ("resourceVersion", "uid"):
            wanted = manifest.get("metadata", {}).get(field)
            if wanted is not None and wanted != kept[field]:
                raise Conflict(f"{address} has another {field} now", status=409)

    def _put(self, address: Address, after: Json) -> Json:
        before = self._objects[address].body
        if after == before:
            self.writes += 1
            return copied(before)
        if after.get("spec") != before.get("spec"):
            after["metadata"]["generation"] = int(before["metadata"].get("generation", 1)) + 1
        self._objects[address].body = after
        self._changed("MODIFIED", after)
        if after["metadata"].get("deletionTimestamp") and not after["metadata"].get("finalizers"):
            self._gone(address, orphan=False)
        return copied(after)

    def _gone(self, address: Address, *, orphan: bool) -> None:
        kept = self._objects.pop(address)
        self._changed("DELETED", kept.body)
        uid = kept.body["metadata"]["uid"]
        left = {one.body["metadata"]["uid"] for one in self._objects.values()}
        owned = [
            other
            for other, child in self._objects.items()
            if uid in (owners := _owners(child.body)) and not left.intersection(owners)
        ]
        for other in owned:
            if orphan:
                self._objects[other].body["metadata"].pop("ownerReferences")
            elif other in self._objects:
                self._gone(other, orphan=False)

    def _changed(self, type: str, body: Json) -> None:
        self.writes += 1
        self._version += 1
        body["metadata"]["resourceVersion"] = str(self._version)
        self.changes.append(Change(type, copied(body)))
        for watcher in list(self._watchers):
            watcher(self.changes[-1])


def _owners(body: Json) -> list[str]:
    return [str(owner["uid"]) for owner in body["metadata"].get("ownerReferences") or ()]


def _address(manifest: Json) -> Address:
    return str(manifest["kind"]), manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"]


def _merged(into: Json, patch: Json) -> Json:
    for key, value in patch.items():
        if value is None:
            into.pop(key, None)
        elif isinstance(value, dict):
            inner = into.get(key)
            into[key] = _merged(inner if isinstance(inner, dict) else {}, value)
        else:
            into[key] = json.loads(json.dumps(value))
    return into


def _paths(manifest: Json, at: tuple[str, ...] = ()) -> Paths:
    found: set[tuple[str, ...]] = set()
    for key, value in manifest.items():
        path = (*at, key)
        if path in (("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace")):
            continue
        if isinstance(value, dict) and value:
            found |= _paths(value, path)
        else:
            found.add(path)
    return frozenset(found)


def _remove(body: Json, path: tuple[str, ...]) -> None:
    for key in path[:-1]:
        inner = body.get(key)
        if not isinstance(inner, dict):
            return
        body = inner
    body.pop(path[-1], None)
