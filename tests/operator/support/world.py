"""Kubernetes in memory around reconcilers, and time that the test moves: what the worlds of all kinds share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from odradek_operator.foundation.keys import Key
from odradek_operator.foundation.metrics import ConditionBook
from odradek_operator.gateways.kubernetes import Api, Json
from odradek_operator.reconcilers.reconciler import Environment
from tests.operator.support.kubernetes import MemoryKubernetes


def manifest(
    api: Api, name: str, spec: Json | None = None, *, namespace: str = "default", **about: Any
) -> Json:
    """An object as a client creates it; `about` is more of its metadata."""
    made: Json = {
        "apiVersion": api.group_version,
        "kind": api.kind,
        "metadata": {"name": name, "namespace": namespace, **about},
    }
    return made if spec is None else {**made, "spec": spec}


class OperatorWorld:
    """Resources of one namespace, and an operator that may be killed.

    `begin` makes its reconcilers. The first process begins by `restart_operator` where `__init__` ends.
    """

    namespace = "default"

    def __init__(self) -> None:
        self.kubernetes = MemoryKubernetes()
        self.objects = self.kubernetes.objects
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.clock: Callable[[], datetime] = lambda: self.now
        self.woken: list[Key] = []

    def restart_operator(self) -> None:
        """A new process: what the old one remembered is gone."""
        self.conditions = ConditionBook()
        self.environment = Environment(
            kubernetes=self.kubernetes,
            conditions=self.conditions,
            wake=lambda key, after_seconds=0.0: self.woken.append(key),
            now=lambda: self.clock(),
        )
        self.begin(self.environment)

    def begin(self, environment: Environment) -> None:
        """Make the reconcilers of a new process."""

    def key(self, api: Api, name: str) -> Key:
        return Key(api.kind, self.namespace, name)

    def create(
        self, api: Api, name: str, spec: Json | None = None, *, status: Json | None = None, **about: Any
    ) -> Json:
        """Make an object; `about` is more of its metadata."""
        created = self.objects.create(manifest(api, name, spec, namespace=self.namespace, **about))
        if status is not None:
            self.set_status(api, name, status)
        return created

    def set_status(self, api: Api, name: str, status: Json) -> None:
        self.objects.set_status(api, self.namespace, name, status, uid=None)

    def merge(self, api: Api, name: str, patch: Json) -> None:
        self.objects.merge(api, self.namespace, name, patch)

    def delete(self, api: Api, name: str) -> None:
        """Delete something as a user does."""
        self.objects.delete(api, self.namespace, name, uid=None, orphan=False)

    def get(self, api: Api, name: str) -> Json | None:
        return self.objects.get(api, self.namespace, name)

    def body(self, api: Api, name: str) -> Json:
        """An object that is there."""
        found = self.get(api, name)
        assert found is not None, f"{api.kind} {name} is gone"
        return found

    def status_of(self, api: Api, name: str) -> Json:
        return dict(self.body(api, name).get("status") or {})

    def stated(self, api: Api, name: str, type: str) -> Json:
        """A condition of a resource; empty where it is absent."""
        conditions: list[Json] = self.status_of(api, name).get("conditions", [])
        return next((one for one in conditions if one["type"] == type), {})
