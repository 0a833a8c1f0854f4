"""kubectl as the tests use it: apply, wait for what is to become true, run programs in pods. Reads need no kubectl.

A wait is a poll with a bound: it raises with what was there last. Nothing here knows of Odradek.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import yaml

from e2e.looks import REFUSALS, Looks, NoSuchKindError, looks

Resource = dict[str, Any]
Seen = TypeVar("Seen")
POLL_SECONDS = 0.5
COMMAND_SECONDS_MAX = 120.0


class KubectlError(Exception):
    """kubectl refused; the text is what it said."""


class NeverTrueError(AssertionError):
    """A condition that was waited for did not become true; the text says what was there instead."""


@dataclass(frozen=True, slots=True)
class Kube:
    """One namespace of the cluster that KUBECONFIG names."""

    namespace: str

    def run(self, *arguments: str, stdin: str | None = None, seconds_max: float = COMMAND_SECONDS_MAX) -> str:
        """Standard output of `kubectl ARGUMENTS`; KubectlError."""
        done = subprocess.run(
            ["kubectl", "--namespace", self.namespace, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=seconds_max,
            check=False,
        )
        if done.returncode != 0:
            raise KubectlError(
                f"kubectl {' '.join(arguments)}: {done.stderr.strip()}\n{done.stdout[-2000:]}".strip()
            )
        return done.stdout

    def apply(self, *resources: Resource) -> None:
        """Declare resources, as a user does with a file."""
        self.run("apply", "-f", "-", stdin=yaml.safe_dump_all(resources))

    def get(self, kind: str, name: str) -> Resource | None:
        """A resource, or None when there is no such. Raises KubectlError."""
        try:
            return self._looks.get(kind, name, self.namespace)
        except (*REFUSALS, NoSuchKindError) as refusal:
            raise KubectlError(f"get {kind} {name}: {refusal}") from refusal

    def items(self, kind: str, selector: str = "") -> list[Resource]:
        """All resources of a kind, by name; those that a label selector matches. Raises KubectlError."""
        try:
            found = self._looks.items(kind, self.namespace, selector)
        except (*REFUSALS, NoSuchKindError) as refusal:
            raise KubectlError(f"get {kind}: {refusal}") from refusal
        return sorted(found, key=lambda one: str(one["metadata"]["name"]))

    def pods(self, selector: str = "") -> list[Resource]:
        """The pods that stay: those that are being deleted are still listed until they have ended."""
        return [one for one in self.items("pods", selector) if "deletionTimestamp" not in one["metadata"]]

    @property
    def _looks(self) -> Looks:
        return looks(os.environ["KUBECONFIG"])

    def patch(self, kind: str, name: str, change: Resource) -> None:
        """Merge a change into a resource."""
        self.run("patch", kind, name, "--type", "merge", "--patch", json.dumps(change))

    def delete(self, kind: str, *names: str, wait: bool = True) -> None:
        """Delete resources; those that are gone already count as deleted."""
        self.run("delete", kind, *names, "--ignore-not-found", f"--wait={str(wait).lower()}", seconds_max=180)

    def kill_pod(self, name: str) -> None:
        """End a pod at once, as when its node is lost: no signal that it could prepare for."""
        self.run("delete", "pod", name, "--grace-period=0", "--force")

    def inside(self, pod: str, *command: str, stdin: str | None = None, seconds_max: float = 120) -> str:
        """Standard output of a program in a pod."""
        flags = ["-i"] if stdin is not None else []
        return self.run("exec", *flags, pod, "--", *command, stdin=stdin, seconds_max=seconds_max)

    def beside(self, pod: str, *command: str) -> subprocess.Popen[str]:
        """A program in a pod that continues while the test does; it ends when its standard input is closed."""
        return subprocess.Popen(
            ["kubectl", "--namespace", self.namespace, "exec", "-i", pod, "--", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ready(self, kind: str, name: str, seconds_max: float) -> Resource:
        """A resource of Odradek's once it is Ready and its status is about what was last declared."""
        return until(
            lambda: self.get(kind, name), is_ready, seconds_max=seconds_max, what=f"{kind}/{name} is Ready"
        )


def until(
    read: Callable[[], Seen | None], wanted: Callable[[Seen], bool], *, seconds_max: float, what: str
) -> Seen:
    """Return what `read` gives once `wanted` holds for it. Raises NeverTrueError with the last value."""
    deadline = time.monotonic() + seconds_max
    while True:
        seen = read()
        if seen is not None and wanted(seen):
            return seen
        if time.monotonic() >= deadline:
            raise NeverTrueError(f"not within {seconds_max:.0f} s: {what}; last seen: {_shown(seen)}")
        time.sleep(POLL_SECONDS)


def _shown(seen: Any) -> str:
    """A resource's status says why; other values are short."""
    reported = seen.get("status", seen) if isinstance(seen, dict) else seen
    return json.dumps(reported, indent=1, default=str)[:4000]


def condition(resource: Resource, kind: str) -> Resource:
    """A condition of a resource by its type; empty when it has none."""
    conditions = resource.get("status", {}).get("conditions", [])
    return next((one for one in conditions if one["type"] == kind), {})


def is_ready(resource: Resource) -> bool:
    """Ready, and not said of an older declaration."""
    current = resource.get("status", {}).get("observedGeneration") == resource["metadata"]["generation"]
    return current and condition(resource, "Ready").get("status") == "True"
