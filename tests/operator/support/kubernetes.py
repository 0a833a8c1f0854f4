"""Kubernetes in memory, for reconcilers: the gateway's calls on `Objects`, with faults.

`killed_after` ends everything after a number of writes, as a kill between two writes does. `broken` makes calls fail.
`before_write` lets another client act between what was read and what is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from odradek_operator.gateways.kubernetes import (
    FIELD_MANAGER,
    Api,
    Conflict,
    EventType,
    Json,
    KubernetesError,
    NotFound,
    metadata,
)
from tests.operator.support.objects import Objects


class Killed(BaseException):
    """The operator was killed here. Not an Exception: nothing may catch it."""


@dataclass(slots=True)
class Life:
    """An operator's, and whether it was cut off."""

    writes_left: int
    was_cut: bool = False


class Told(NamedTuple):
    """An event that was reported."""

    kind: str
    name: str
    type: str
    reason: str
    message: str


class MemoryKubernetes:
    """The gateway for tests. `written` names each write: what was done, to which kind and name."""

    def __init__(self, objects: Objects | None = None) -> None:
        self.objects = objects or Objects()
        self.events: list[Told] = []
        self.written: list[tuple[str, str, str]] = []
        self.forced: list[str] = []
        self._life: Life | None = None
        self.broken: KubernetesError | None = None
        self.unserved: dict[str, KubernetesError] = {}
        """Kinds that are not served or not allowed, as `networking.k8s.io/v1/ingresses`, with the error."""
        self.before_write: Callable[[str, str, str], None] | None = None

    @contextmanager
    def killed_after(self, writes: int) -> Iterator[Life]:
        """An operator that works in here is killed after so many writes; the test continues behind it."""
        self._life = life = Life(writes)
        try:
            yield life
        except Killed:
            life.was_cut = True
        finally:
            self._life = None

    def count_write(self) -> None:
        """The operator is about to write, here or elsewhere. Raises Killed."""
        if self._life is not None:
            if not self._life.writes_left:
                raise Killed
            self._life.writes_left -= 1

    async def get(self, api: Api, namespace: str | None, name: str) -> Json | None:
        await self._read()
        return self.objects.get(api, namespace, name)

    async def list(
        self,
        api: Api,
        namespace: str | None,
        *,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> Sequence[Json]:
        await self._read()
        if (refusal := self.unserved.get(f"{api.group_version}/{api.plural}")) is not None:
            raise refusal
        found = self.objects.list(api, namespace, labels)
        return [
            body for body in found if all(_field(body, key) == value for key, value in (fields or {}).items())
        ]

    async def create(self, manifest: Json) -> Json:
        await self._write("create", manifest["kind"], metadata(manifest)["name"])
        return self.objects.create(manifest)

    async def apply(self, manifest: Json, *, force: bool = True, dry_run: bool = False) -> Json:
        if dry_run:
            await self._read()
            if self.before_write is not None:
                self.before_write("apply", manifest["kind"], metadata(manifest)["name"])
            return manifest
        await self._write("apply", manifest["kind"], metadata(manifest)["name"])
        return self.objects.apply(manifest, manager=FIELD_MANAGER, force=force)

    async def replace(self, manifest: Json) -> Json:
        await self._write("replace", manifest["kind"], metadata(manifest)["name"])
        return self.objects.replace(manifest)

    async def set_status(self, api: Api, body: Json, status: Json) -> Json:
        await self._write("status", api.kind, metadata(body)["name"])
        uid = metadata(body)["uid"]
        return self.objects.set_status(
            api, metadata(body).get("namespace"), metadata(body)["name"], status, uid=uid
        )

    async def set_finalizers(self, api: Api, body: Json, finalizers: Sequence[str]) -> Json:
        await self._write("finalizers", api.kind, metadata(body)["name"])
        patch = {
            "metadata": {"resourceVersion": metadata(body)["resourceVersion"], "finalizers": list(finalizers)}
        }
        return self.objects.merge(api, metadata(body).get("namespace"), metadata(body)["name"], patch)

    async def set_annotations(
        self, api: Api, namespace: str | None, name: str, annotations: Mapping[str, str | None]
    ) -> Json:
        await self._write("annotations", api.kind, name)
        return self.objects.merge(api, namespace, name, {"metadata": {"annotations": dict(annotations)}})

    async def merge(
        self, api: Api, namespace: str | None, name: str, patch: Json, *, only_metadata: bool = False
    ) -> Json:
        if patch:
            await self._write("merge", api.kind, name)
        else:
            await self._read()
        found = self.objects.merge(api, namespace, name, patch)
        return {"metadata": found["metadata"]} if only_metadata else found

    async def set_labels(
        self, api: Api, namespace: str | None, name: str, labels: Mapping[str, str | None]
    ) -> Json:
        await self._write("labels", api.kind, name)
        return self.objects.merge(api, namespace, name, {"metadata": {"labels": dict(labels)}})

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
        await self._write("delete", api.kind, name)
        if force:
            self.forced.append(name)
        try:
            self.objects.delete(api, namespace, name, uid=uid, orphan=orphan)
        except (NotFound, Conflict):
            return False
        return True

    async def record_event(self, about: Json, type: EventType, reason: str, message: str) -> None:
        await asyncio.sleep(0)
        self.events.append(Told(about["kind"], metadata(about)["name"], str(type), reason, message))

    async def _read(self) -> None:
        # A turn of the loop, as every call to the outside takes: others act in between.
        await asyncio.sleep(0)
        if self.broken is not None:
            raise self.broken

    async def _write(self, what: str, kind: str, name: str) -> None:
        await self._read()
        self.count_write()
        self.written.append((what, kind, name))
        if self.before_write is not None:
            self.before_write(what, kind, name)


def _field(body: Json, path: str) -> object:
    """A field by its path, as `involvedObject.name`."""
    found: Any = body
    for key in path.split("."):
        found = (found or {}).get(key)
    return found
