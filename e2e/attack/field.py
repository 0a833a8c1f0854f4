"""Where the attacks take place: an operator, a Cluster with TLS, logins and rights, and honest clients of it.

The operator watches namespaces beside it, too, where attacks make small Clusters of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from random import Random
from typing import Any

import kubernetes

from e2e import boot
from e2e.attack.judge import Judge
from e2e.conftest import settled, uids
from e2e.install import (
    NAMESPACE,
    OPERATOR_NAMESPACE,
    OPERATOR_RELEASE,
    RELEASE,
    HelmError,
    clear,
    helm,
)
from e2e.kube import Kube, KubectlError, NeverTrueError, Resource, condition, is_ready, until

READY_SECONDS_MAX = 300.0
ASIDE, ELSEWHERE = "aside", "elsewhere"
CLIENTS = ("producer-a", "producer-b", "consumer-a", "consumer-b")
HONEST_POD = TOPIC = "honest"
BOOTSTRAP = f"{RELEASE}-bootstrap.{NAMESPACE}.svc:9092"
SMALL = {"requests": {"cpu": "20m", "memory": "64Mi"}}
CAUGHT_UP_SECONDS_MAX = 60.0
REFUSED = (AssertionError, KubectlError, HelmError, subprocess.SubprocessError)
"""What an attack raises that did not end as promised."""
_RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
CLUSTER: Resource = {
    "brokers": {"replicas": 3, "storage": {"size": "2Gi"}, "config": {"min.insync.replicas": 2}},
    "internalListener": {"authentication": {"type": "scram-sha-512"}},
    "authorization": {"superUsers": ["User:admin"]},
}


def of(kind: str, name: str, **spec: Any) -> Resource:
    """A resource of Odradek's."""
    return {"apiVersion": "odradek.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def small_cluster(name: str, **more: Any) -> Resource:
    """One broker, one controller, one ZooKeeper server."""
    spec = {
        "zookeeper": {"servers": {"replicas": 1, "storage": {"size": "1Gi"}, "resources": SMALL}},
        "controllers": {"replicas": 1, "resources": SMALL},
        "brokers": {"replicas": 1, "storage": {"size": "1Gi"}, "resources": SMALL},
        **more,
    }
    return of("Cluster", name, **spec)


@dataclass
class Field:
    """The installation, and what honest clients have seen so far."""

    kube: Kube = field(default_factory=lambda: Kube(NAMESPACE))
    operator: Kube = field(default_factory=lambda: Kube(OPERATOR_NAMESPACE))
    judge: Judge = field(default_factory=Judge)
    chance: Random = field(default_factory=Random)
    _read: dict[str, int] = field(default_factory=dict)

    def install(self) -> None:
        """The operator, the Cluster and the honest clients, from the state that the machine is in."""
        clear(self.kube)
        for name in (ASIDE, ELSEWHERE):
            Kube(name).delete("namespace", name)
        for name in (NAMESPACE, ASIDE, ELSEWHERE):
            self.kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self.upgrade_operator()
        self.upgrade_cluster()
        self.kube.ready("cluster", RELEASE, READY_SECONDS_MAX)
        for kind, name in (("user", "honest"), ("user", "admin"), ("topic", TOPIC)):
            self.kube.ready(kind, name, READY_SECONDS_MAX)
        self.kube.apply(honest_pod())
        self.kube.run("wait", "--for=condition=Ready", f"pod/{HONEST_POD}", "--timeout=120s")
        self.at_work()

    def upgrade_operator(self, *more: str) -> None:
        watched = f"watch.namespaces={{{NAMESPACE},{ASIDE},{ELSEWHERE}}}"
        where = ["--namespace", OPERATOR_NAMESPACE, "--create-namespace", "--wait", "--timeout", "3m"]
        helm(
            "upgrade", "--install", OPERATOR_RELEASE, "helm/odradek-operator", *where, "--set", watched, *more
        )

    def upgrade_cluster(self, **more: Any) -> None:
        """Declare it, with fields beside those that it always has."""
        rights = [
            {"resource": {"type": "topic", "name": TOPIC}, "operations": ["Read", "Write", "Describe"]},
            {"resource": {"type": "group", "name": "honest"}, "operations": ["Read"]},
            {"resource": {"type": "group", "name": "reads"}, "operations": ["Read"]},
        ]
        values = {
            "cluster": {"spec": {**CLUSTER, **more}},
            "topics": {TOPIC: {"partitions": 6, "replicas": 3}},
            "users": {"honest": {"acls": rights}, "admin": {}},
        }
        where = ["--namespace", NAMESPACE, "--set-json"]
        given = [f"{name}={json.dumps(value)}" for name, value in values.items()]
        helm("upgrade", "--install", RELEASE, "helm/odradek", *where, ",".join(given))

    # --- honest clients -------------------------------------------------------------------------------------------

    def now(self) -> float:
        """The clock of the machine on which the honest clients run."""
        script = "import time; print(time.monotonic())"
        return float(self.in_reader("python3", "-c", script))

    def in_reader(self, *command: str) -> str:
        return self.kube.run("exec", HONEST_POD, "--container", "reader", "--", *command)

    def in_admin(self, *command: str) -> str:
        return self.kube.run("exec", HONEST_POD, "--container", "admin", "--", *command)

    def as_admin(self, *words: str, stdin: str | None = None) -> str:
        """What the command line prints, with all rights."""
        flags = ["-i"] if stdin is not None else []
        command = ["odradek", "--command-config", "/etc/user/client.properties", *words]
        return self.kube.run("exec", *flags, HONEST_POD, "--container", "admin", "--", *command, stdin=stdin)

    def collect(self) -> None:
        """Read what journals have more than before."""
        for client in CLIENTS:
            read = self._read.get(client, 0)
            text = self.in_reader("tail", "-c", f"+{read + 1}", f"/journals/{client}")
            self._read[client] = read + len(text.encode())
            self.judge.take(client, text)

    def at_work(self) -> None:
        """Wait until every honest client has had a record that came after this moment."""
        since = self.now()

        def are_at_work() -> bool:
            self.collect()
            return set(CLIENTS) <= self.judge.seen_since(since)

        self.until(are_at_work, "every honest client has records again", READY_SECONDS_MAX)

    def held(self, begin: dict[int, int]) -> Iterator[tuple[int, int, str]]:
        """(partition, offset, value) of what brokers hold from these offsets on."""
        offsets = ",".join(f"{partition}:{offset}" for partition, offset in begin.items())
        printed = self.in_reader("python3", "honest.py", "read", TOPIC, offsets)
        for line in printed.splitlines():
            _, partition, offset, value = line.split(" ", 3)
            yield int(partition), int(offset), value

    def complaints(self, begin: dict[int, int]) -> list[str]:
        """What is wrong with what honest clients were promised; records before `begin` are not looked at."""
        self.collect()
        known = set(self.judge.missing())

        def given() -> bool:
            self.collect()
            return not known & set(self.judge.missing())

        found = []
        try:
            self.until(given, "consumers have all that was acknowledged", CAUGHT_UP_SECONDS_MAX)
        except NeverTrueError:
            left = sorted(known & set(self.judge.missing()))
            found.append(f"{len(left)} acknowledged records were given to no consumer: {left[:5]}")
        # Read before it is compared: what is acknowledged after that is compared the next time.
        acknowledged = dict(self.judge.acknowledged)
        held = list(self.held(begin))
        judge = Judge(acknowledged, {**self.judge.delivered}, self.judge.failed)
        ends: dict[int, int] = {}
        for partition, offset, _ in held:
            ends[partition] = max(ends.get(partition, 0), offset)
        judge.delivered = {
            place: value for place, value in judge.delivered.items() if place[1] <= ends.get(place[0], -1)
        }
        return found + judge.complaints(held, begin)

    # --- attacks' tools -------------------------------------------------------------------------------------------

    def word(self) -> str:
        """A value that no earlier annotation had."""
        return f"attack-{self.chance.randrange(1_000_000_000)}"

    def helm(self, *arguments: str) -> str:
        """What Helm prints. Raises HelmError."""
        return helm(*arguments)

    def pods(self, component: str = "") -> dict[str, str]:
        """The uids of the Cluster's pods by name: those of one component, or all of them."""
        selector = f"odradek.io/cluster={RELEASE}"
        if component:
            selector += f",app.kubernetes.io/component={component}"
        return uids(self.kube.pods(selector))

    def patch_often(self, plural: str, name: str, changes: Iterable[Resource]) -> None:
        """Merge changes into one of Odradek's resources as quickly as the API server takes them."""
        for change in changes:
            self._patch(plural, name, change)

    def patch_each(self, plural: str, names: Iterable[str], change: Resource) -> None:
        """Merge a change into several of Odradek's resources likewise."""
        for name in names:
            self._patch(plural, name, change)

    @cached_property
    def _patch(self) -> Callable[[str, str, Resource], object]:
        """One connection for all: each kubectl would take longer than its request."""
        configured = kubernetes.config.new_client_from_config(config_file=os.environ["KUBECONFIG"])
        api = kubernetes.client.CustomObjectsApi(configured)
        return partial(api.patch_namespaced_custom_object, "odradek.io", "v1", NAMESPACE)

    # --- what is so -----------------------------------------------------------------------------------------------

    def whole(self, seconds_max: float = READY_SECONDS_MAX) -> None:
        """Wait until the Cluster and all of its parts are as declared and serve."""
        settled(self.kube, seconds_max)

    def until(self, holds: Callable[[], object], what: str, seconds_max: float = 120.0) -> None:
        """Wait until something holds. A refusal of the API server counts as no."""

        def holds_now() -> bool:
            try:
                return bool(holds())
            except KubectlError:
                return False

        until(holds_now, bool, seconds_max=seconds_max, what=what)

    def condition(
        self, kube: Kube, kind: str, name: str, type: str, reason: str, seconds_max: float = 120.0
    ) -> str:
        """The message of a condition once it has a reason."""
        found = until(
            lambda: kube.get(kind, name),
            lambda seen: condition(seen, type).get("reason") == reason,
            seconds_max=seconds_max,
            what=f"{kind}/{name} has the condition {type} with the reason {reason}",
        )
        return str(condition(found, type)["message"])

    def events(self, kube: Kube) -> str:
        """Reasons and messages of all events, a line each."""
        return "\n".join(f"{one.get('reason')}: {one.get('message')}" for one in kube.items("events"))

    def is_ready(self, kube: Kube, kind: str, name: str) -> bool:
        found = kube.get(kind, name)
        return found is not None and is_ready(found)

    @contextmanager
    def side_cluster(self, name: str, namespace: str = ASIDE, **more: Any) -> Iterator[Kube]:
        """A Ready Cluster of one broker in a namespace beside; nothing is left of it."""
        kube = Kube(namespace)
        try:
            kube.apply(small_cluster(name, **more))
            kube.ready("cluster", name, READY_SECONDS_MAX)
            yield kube
        finally:
            self.empty(namespace)

    def empty(self, namespace: str) -> None:
        """Take all of Odradek's out of a namespace beside, volumes included."""
        kube = Kube(namespace)
        kinds = ("mirrors", "topics", "consumergroups", "users", "clusters")
        for kind in kinds:
            kube.run("delete", f"{kind}.odradek.io", "--all", "--wait=false")
        kube.run("delete", "pvc", "--all", "--wait=false")
        self.until(lambda: not kube.items("pods") and not kube.items("pvc"), f"{namespace} is empty", 180)


def honest_pod() -> Resource:
    """Producers, consumers, a reader of their journals, and a command line with all rights."""

    def container(name: str, image: str, command: list[str], user: str) -> Resource:
        mounts = [
            {"name": "journals", "mountPath": "/journals"},
            {"name": user, "mountPath": "/etc/user", "readOnly": True},
        ]
        about = {"name": name, "image": boot.image(image), "imagePullPolicy": "IfNotPresent"}
        return {**about, "command": command, "securityContext": _RESTRICTED, "volumeMounts": mounts}

    def honest(name: str) -> Resource:
        role = "produce" if name.startswith("producer") else "consume"
        command = ["python3", "honest.py", role, TOPIC, f"/journals/{name}", name.removeprefix("producer-")]
        return container(name, "clients", command, "honest")

    security = {
        "runAsNonRoot": True,
        "runAsUser": 10001,
        "fsGroup": 10001,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    sleep = ["sleep", "infinity"]
    spec = {
        "containers": [
            *(honest(name) for name in CLIENTS),
            container("reader", "clients", sleep, "honest"),
            container("admin", "broker", sleep, "admin"),
        ],
        "securityContext": security,
        "terminationGracePeriodSeconds": 0,
        "volumes": [
            {"name": "journals", "emptyDir": {}},
            *({"name": user, "secret": {"secretName": user}} for user in ("honest", "admin")),
        ],
    }
    about = {"name": HONEST_POD, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec}


def wait_seconds(seconds: float) -> None:
    """Time in which an attack lasts."""
    time.sleep(seconds)
